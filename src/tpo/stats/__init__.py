"""Statistics over seeds: intervals, what curves reach, verdicts. Imports nothing else of tpo.

`repetition` judges published numbers (agrees, differs, too noisy), `verdicts` claims (holds, does not hold,
undecided) by the tests of `significance`. docs/research/studies/index.md says what each means.
"""
