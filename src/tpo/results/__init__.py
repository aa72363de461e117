"""Results: the store of runs, statistics, tables, figures."""
