"""Policies as frozen values: plain functions of named arrays, no neural library."""

from tpo.lab.policies.base import Params, Paths, Policy
from tpo.lab.policies.onestep import MLP, CodePolicy, Table
from tpo.lab.policies.transformer import Transformer

__all__ = ["MLP", "CodePolicy", "Params", "Paths", "Policy", "Table", "Transformer"]
