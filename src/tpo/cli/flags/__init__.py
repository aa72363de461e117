"""Flags: the parser of commands, and what their values are."""
