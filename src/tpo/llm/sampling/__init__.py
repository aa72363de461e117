"""Sampling: completions of many prompts at once, from the weights that are being trained."""
