"""A store of short runs, its results page, and `tpo evidence`: for the tests of evidence and its pages."""

import argparse

from tpo.cli import evidence as command
from tpo.lab import studies
from tpo.lab.execution.runner import Request, run
from tpo.reports.markdown import sections, study_page


def tabular(folder, seeds=4, methods=(), watch=None):
    run(Request(studies.get_study("tabular_single"), "smoke", seeds, methods), folder, watch)
    return folder


def page_of(results, notes=None):
    """The pages of all studies, one after another."""
    return "\n".join(map(study_page.page, sections.sections(results, notes or {})))


def call(*words):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["evidence", *words])
    return args.run(args)
