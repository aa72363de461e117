"""Policies as frozen values: plain functions of named arrays, no neural library."""

from tpo.policies.base import Params, Paths, Policy
from tpo.policies.onestep import MLP, Table
from tpo.policies.transformer import Transformer

__all__ = ["MLP", "Params", "Paths", "Policy", "Table", "Transformer"]
