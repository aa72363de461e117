"""Packed groups: a prompt is computed once for all of its candidates."""
