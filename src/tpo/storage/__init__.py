"""Plain files on disk: stores of runs, atomic writes, provenance. Imports nothing else of tpo."""
