"""How a row of the catalogue is written."""

from __future__ import annotations

from pytest_affine.mutants.mutant import Mutant

__all__ = ["mutant"]


def mutant(
    requirement: str,
    id_: str,
    fault: str,
    sentence: str,
    *,
    origin: str = "",
    hangs: bool = False,
    raises: bool = False,
) -> Mutant:
    """A mutant whose fault, `module:class`, is in a module of `pytest_affine.mutants.faults`."""
    return Mutant(
        id=id_,
        requirement=requirement,
        sentence=sentence,
        fault=f"pytest_affine.mutants.faults.{fault}",
        origin=origin,
        hangs=hangs,
        raises=raises,
    )
