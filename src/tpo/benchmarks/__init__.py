"""What `tpo bench` measures: each module has `rows`, a list of ratios taken in one run."""
