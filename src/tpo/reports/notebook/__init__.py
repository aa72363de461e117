"""Results as values that show themselves in a notebook."""
