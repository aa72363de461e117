"""The report as one HTML file; its scripts and styles are in `assets`."""
