"""Faulty implementations, and the gate that runs the suite against them."""

from pytest_affine.mutants.mutant import Mutant

__all__ = ["Mutant"]
