"""A store of short runs, and what is made of one: for the tests of evidence and of its pages."""

import argparse

from tpo import studies
from tpo.cli import evidence as command
from tpo.results.report import results_page
from tpo.studies.runner import Request, run


def tabular(folder, seeds=4, methods=(), watch=None):
    run(Request(studies.study("tabular_single"), "smoke", seeds, methods), folder, watch)
    return folder


def page_of(records, notes=None):
    return results_page.page(results_page.sections(records, notes or {}))


def call(*words):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["evidence", *words])
    return args.run(args)
