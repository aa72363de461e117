"""Comparisons: several methods, trained on the same prompts and seeds with the same number of rollouts."""
