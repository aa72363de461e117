"""Stores to report."""

from support.stores import kept, store, store_dir  # noqa: F401 - fixtures
