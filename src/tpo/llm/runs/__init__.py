"""One training run: a recipe in; a model, logs and a card out."""
