"""A store of short runs, its results page, and `tpo evidence`: for the tests of evidence and its pages."""

import argparse

from tpo.cli import evidence as command
from tpo.lab import studies
from tpo.lab.execution.runner import Request, run
from tpo.reports.markdown import results_page


def tabular(folder, seeds=4, methods=(), watch=None):
    run(Request(studies.get_study("tabular_single"), "smoke", seeds, methods), folder, watch)
    return folder


def page_of(results, notes=None):
    return results_page.page(results_page.sections(results, notes or {}))


def call(*words):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["evidence", *words])
    return args.run(args)
