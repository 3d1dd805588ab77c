"""Every mutant of the suite, in the order of the manifest; plain data, nothing is imported."""

from __future__ import annotations

from itertools import chain

from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.mutants.catalogue.analyses import ANALYSES
from pytest_affine.mutants.catalogue.batches import BATCHES
from pytest_affine.mutants.catalogue.digests import DIGESTS
from pytest_affine.mutants.catalogue.executions import EXECUTIONS
from pytest_affine.mutants.catalogue.layouts import LAYOUTS
from pytest_affine.mutants.catalogue.maps import MAPS
from pytest_affine.mutants.catalogue.planning import PLANNING
from pytest_affine.mutants.catalogue.plans import PLANS
from pytest_affine.mutants.catalogue.reshards import LAYOUT_SYNCS, RESHARDS
from pytest_affine.mutants.catalogue.schedules import SCHEDULES
from pytest_affine.mutants.mutant import Mutant

__all__ = ["CATALOGUE"]

_STAGES = (
    *(MAPS, PLANS, PLANNING, BATCHES, SCHEDULES, DIGESTS, EXECUTIONS, ANALYSES),
    *(LAYOUTS, LAYOUT_SYNCS, RESHARDS),
)
_PLACES = {id_: place for place, id_ in enumerate(REQUIREMENTS)}

CATALOGUE: tuple[Mutant, ...] = tuple(
    sorted(chain.from_iterable(_STAGES), key=lambda mutant: _PLACES[mutant.requirement])
)
