"""Hypothesis strategies: maps, valid and broken, all that a sync of them needs, and layouts.

Everything drawn is small enough to move and to read, and shrinks to something simpler. Options are
keyword-only and checked when a strategy is made. Importing this imports hypothesis, and no torch.
"""

from pytest_affine.strategies.answering import answers
from pytest_affine.strategies.batches import (
    DTYPES,
    dtypes,
    element_sizes,
    endpoints,
    plan_budgets,
    staging_budgets,
)
from pytest_affine.strategies.broken import MAP_RULES, InvalidMap, invalid_maps
from pytest_affine.strategies.extents import shapes
from pytest_affine.strategies.mistakes import ANSWER_FAULTS, InvalidAnswers, invalid_answers
from pytest_affine.strategies.named import name_cases, wrong_name_cases
from pytest_affine.strategies.policies import TablePolicy, replica_policies
from pytest_affine.strategies.sharded import (
    LAYOUT_KINDS,
    layout_cases,
    layout_sequences,
    layouts,
    parameters,
)
from pytest_affine.strategies.valid import MAP_KINDS, POWERS_OF_TWO, map_pairs, maps
from pytest_affine.strategies.whole_syncs import sync_cases, syncs

__all__ = [
    "ANSWER_FAULTS",
    "DTYPES",
    "LAYOUT_KINDS",
    "MAP_KINDS",
    "MAP_RULES",
    "POWERS_OF_TWO",
    "InvalidAnswers",
    "InvalidMap",
    "TablePolicy",
    "answers",
    "dtypes",
    "element_sizes",
    "endpoints",
    "invalid_answers",
    "invalid_maps",
    "layout_cases",
    "layout_sequences",
    "layouts",
    "map_pairs",
    "maps",
    "name_cases",
    "parameters",
    "plan_budgets",
    "replica_policies",
    "shapes",
    "staging_budgets",
    "sync_cases",
    "syncs",
    "wrong_name_cases",
]
