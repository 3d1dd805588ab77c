"""Whether what changed hands between processes was seen on the wire."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.probe.sides import Shard
from pytest_affine.ranks import tap
from pytest_affine.ranks.wire import WireEvent
from pytest_affine.truth.blocks import Affine, Block, tagged
from pytest_affine.truth.cutting import MAX_ENUMERATED, choose_cut

__all__ = ["Watch", "needed_bytes"]


class Watch:
    """Counts the bytes that come over the wire from when it is made; nothing where no tap is."""

    def __init__(self) -> None:
        self._mark: int | None = None
        with contextlib.suppress(RuntimeError):
            self._mark = tap.mark()

    def seen_bytes(self) -> int | None:
        """The bytes that this rank got from others since; None where nobody watched."""
        if self._mark is None:
            return None
        return sum(map(_from_others, tap.events_since(self._mark)))


def _from_others(event: WireEvent) -> int:
    own = event.sent_bytes if "gather" in event.kind else 0
    return max(0, event.received_bytes - own)


def needed_bytes(
    sources: Iterable[Shard],
    targets: Iterable[Shard],
    item_bytes: Mapping[str, int],
) -> int:
    """Size of the elements that targets of this process take and none of its sources has.

    Args:
        sources: its source shards.
        targets: its target shards.
        item_bytes: by parameter, the size of an element on the wire at least.
    """
    held: dict[str, list[Block]] = {}
    wanted: dict[str, list[Block]] = {}
    for role, shards, blocks in (("held", sources, held), ("wanted", targets, wanted)):
        for shard in {(shard.parameter, shard.location): shard for shard in shards}.values():
            found = blocks.setdefault(shard.parameter, [])
            found += _blocks(shard.map_, shard.location, role)
    return sum(
        item_bytes[name] * _num_missing([*held.get(name, []), *blocks])
        for name, blocks in wanted.items()
    )


def _blocks(map_: ParamAffineMap, location: int, role: str) -> Iterator[Block]:
    for piece in map_.pieces(location):
        near = Affine(piece.full_offset, piece.full_strides)
        yield Block(shape=piece.shape, near=near, tag=role)


def _num_missing(blocks: list[Block]) -> int:
    """How many elements are wanted and not held; as if none where that can't be told."""
    cut = choose_cut([blocks], MAX_ENUMERATED)
    try:
        groups = [
            (group[0].num_elements, {tag for tag, _ in tagged(group, str)}) for group in cut(blocks)
        ]
    except UnsupportedLayoutError:
        return 0
    return sum(size for size, roles in groups if roles == {"wanted"})
