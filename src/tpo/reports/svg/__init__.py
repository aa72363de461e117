"""Figures as SVG files without scripts, for light and dark pages."""
