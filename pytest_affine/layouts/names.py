"""Which tensors of two sides are parts of one logical tensor, told by their local names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from pytest_affine.errors import InvalidMapError
from pytest_affine.layouts.description import check_stages
from pytest_affine.layouts.inventory import Inventory

__all__ = ["LocalName", "match"]

LocalName: TypeAlias = tuple[int, str]
"""A location and the name that a tensor has there."""

Logical: TypeAlias = tuple[str, int | None, int | None]
"""A name without its numbers, the number of the layer and that of the expert."""

Group: TypeAlias = tuple[int, int]
"""A pipeline stage and an expert-parallel rank."""


def match(source: Inventory, target: Inventory) -> dict[LocalName, frozenset[LocalName]]:
    """For each tensor of the target, all tensors of the source that are parts of the same one.

    The number behind `layers` counts the layers of the rank's pipeline stage, and the number
    behind `experts` or `local_experts`, or at the end of `weight` or `bias` below `experts`,
    counts the experts of its expert-parallel rank. Names are compared with the global numbers.

    Returns:
        By (target location, local name), every (source location, local name).

    Raises:
        InvalidMapError: a tensor of one side that the other lacks, ranks of one stage or expert
            group with other names than the rest of it, or local numbers with a gap.
        AffineTransferError: the order of a layout puts a rank on two stages.
    """
    sources, targets = _by_logical(source, "source"), _by_logical(target, "target")
    for one, other, what in ((targets, sources, "source"), (sources, targets, "target")):
        if lacking := [_shown(logical) for logical in one if logical not in other]:
            raise InvalidMapError(
                f"the {what} lacks {len(lacking)} of the tensors, such as {lacking[0]}; each "
                f"must be on both sides"
            )
    return {
        held: frozenset(sources[logical]) for logical, every in targets.items() for held in every
    }


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A local name: without numbers, up to its layers, and its local numbers."""

    family: str
    stack: str
    layer: int | None
    expert: int | None


_LAYER = re.compile(r"(?P<stack>(?:.*?\.)?layers)\.(?P<number>\d+)(?=\.|$)")
_EXPERT = re.compile(r"(?<![^.])(?:experts\.)?(?:local_)?experts\.(?P<number>\d+)(?=\.|$)")
_GROUPED = re.compile(r"(?<![^.])experts\.(?P<module>.+\.|)(?P<leaf>weight|bias)(?P<number>\d+)$")


def _parsed(name: str) -> _Parsed:
    stack, layer, expert = "", None, None
    if found := _LAYER.match(name):
        stack, layer = found["stack"], int(found["number"])
        name = f"{stack}.*{name[found.end() :]}"
    if found := _EXPERT.search(name):
        expert = int(found["number"])
        name = f"{name[: found.start()]}experts.*{name[found.end() :]}"
    elif found := _GROUPED.search(name):
        expert = int(found["number"])
        name = f"{name[: found.start()]}experts.*.{found['module']}{found['leaf']}"
    return _Parsed(name, stack, layer, expert)


def _shown(logical: Logical) -> str:
    """A logical tensor's name, with its global numbers."""
    family, layer, expert = logical
    if layer is not None:
        family = family.replace("layers.*", f"layers.{layer}", 1)
    return family if expert is None else family.replace("experts.*", f"experts.{expert}", 1)


def _by_logical(inventory: Inventory, side: str) -> dict[Logical, list[LocalName]]:
    """By logical tensor, what every rank of one side has of it."""
    try:
        names = _names_by_group(inventory)
        layers = _first_layers(names)
        experts = _expert_numbers(inventory, names, layers)
    except InvalidMapError as error:
        raise InvalidMapError(f"{side}: {error}") from None
    held: dict[Logical, list[LocalName]] = defaultdict(list)
    for location, group in _groups(inventory).items():
        mine: dict[Logical, str] = {}
        for name, parsed in names[group].items():
            family, layer = parsed.family, _global_layer(parsed, group, layers)
            expert = None if parsed.expert is None else experts[family, layer, group][parsed.expert]
            logical = (family, layer, expert)
            if (other := mine.setdefault(logical, name)) != name:
                raise InvalidMapError(
                    f"{side}: {other!r} and {name!r} of location {location} are one tensor"
                )
            held[logical].append((location, name))
    return held


def _groups(inventory: Inventory) -> dict[int, Group]:
    """By rank of the layout, its stage and expert-parallel rank."""
    layout = inventory.layout
    check_stages(layout)
    places = (layout.coordinates(rank, "expert") for rank in range(layout.num_ranks))
    return {rank: (place["pp"], place["ep"]) for rank, place in enumerate(places)}


def _names_by_group(inventory: Inventory) -> dict[Group, dict[str, _Parsed]]:
    """The names of each group's ranks, which must be the same on all of them."""
    names: dict[Group, dict[str, _Parsed]] = {}
    peers: dict[tuple[int, ...], tuple[int, set[str]]] = {}
    for rank, group in _groups(inventory).items():
        mine = {name: _parsed(name) for name in inventory.names(rank)}
        names.setdefault(group, mine)
        dense = {name for name, parsed in mine.items() if parsed.expert is None}
        for key, own in ((group, set(mine)), (group[:1], dense)):
            peer, theirs = peers.setdefault(key, (rank, own))
            if different := sorted(own ^ theirs):
                raise InvalidMapError(
                    f"ranks {peer} and {rank} of stage {group[0]} must have the same names, "
                    f"{different[0]!r} is on one of them"
                )
    return names


def _first_layers(names: Mapping[Group, Mapping[str, _Parsed]]) -> dict[tuple[str, int], int]:
    """By stack and stage, the global number of the stage's first layer."""
    numbers: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for (stage, _), held in names.items():
        for parsed in held.values():
            if parsed.layer is not None:
                numbers[parsed.stack][stage].add(parsed.layer)
    return {
        (stack, stage): first
        for stack, by_stage in numbers.items()
        for stage, first in _firsts(by_stage, f"{stack} of stage").items()
    }


def _firsts(numbers: Mapping[int, Collection[int]], what: str) -> dict[int, int]:
    """What comes before each, where all count on from 0."""
    for at, held in numbers.items():
        if sorted(held) != list(range(len(held))):
            raise InvalidMapError(
                f"{what} {at} must have local numbers from 0 on, without a gap, got {sorted(held)}"
            )
    order = sorted(numbers)
    return dict(zip(order, accumulate((len(numbers[at]) for at in order), initial=0), strict=False))


def _global_layer(
    parsed: _Parsed, group: Group, firsts: Mapping[tuple[str, int], int]
) -> int | None:
    return None if parsed.layer is None else firsts[parsed.stack, group[0]] + parsed.layer


def _expert_numbers(
    inventory: Inventory,
    names: Mapping[Group, Mapping[str, _Parsed]],
    layers: Mapping[tuple[str, int], int],
) -> dict[tuple[str, int | None, Group], list[int]]:
    """By family, layer and group, the global number of each local expert."""
    local: dict[tuple[str, int | None], dict[Group, set[int]]]
    local = defaultdict(lambda: defaultdict(set))
    for group, held in names.items():
        for parsed in held.values():
            if parsed.expert is not None:
                key = parsed.family, _global_layer(parsed, group, layers)
                local[key][group].add(parsed.expert)
    return {
        (*key, (stage, rank)): numbers
        for key, by_group in local.items()
        for stage in {stage for stage, _ in by_group}
        for rank, numbers in _experts_of(
            key[0],
            {rank: by_group.get((stage, rank), set()) for rank in range(inventory.layout.ep)},
            inventory.expert_table,
        )
    }


def _experts_of(
    family: str, local: Mapping[int, Collection[int]], table: tuple[int, ...] | None
) -> Iterator[tuple[int, list[int]]]:
    """The global numbers of each expert-parallel rank's experts, in the order of the local ones."""
    firsts = _firsts(local, f"{family} of expert-parallel rank")
    for rank, held in local.items():
        if table is None:
            yield rank, [firsts[rank] + number for number in range(len(held))]
            continue
        numbers = [expert for expert, owner in enumerate(table) if owner == rank]
        if len(numbers) != len(held):
            raise InvalidMapError(
                f"{family}: expert_table gives expert-parallel rank {rank} {len(numbers)} "
                f"experts, it has {len(held)}"
            )
        yield rank, numbers
