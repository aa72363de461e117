"""Statistics over seeds: intervals, what curves reach, verdicts on claims. Imports nothing else of tpo."""
