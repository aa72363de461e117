"""Stores to report, and a browser to read reports in."""

from support.browser import browser, tab  # noqa: F401 - fixtures
from support.stores import kept, store, store_dir  # noqa: F401 - fixtures
