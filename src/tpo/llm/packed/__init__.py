"""Packed groups: a prompt is read once for all of its candidates."""
