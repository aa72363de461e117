"""Stores of finished runs."""

from support.stores import kept, store, store_dir  # noqa: F401 - fixtures
