"""The suites of `tpo bench`: each module has `rows`, running times beside a baseline's in the same run."""
