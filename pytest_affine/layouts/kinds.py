"""The kinds: how a framework cuts a parameter. Each is a value, and says over which mesh axes.

What a kind means is decided in `cells`; here only its own fields are checked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, TypeAlias

from pytest_affine.errors import InvalidMapError
from pytest_affine.layouts.fields import (
    flag,
    one_of,
    positive,
    read_entry,
    records,
    text,
    write_entry,
)
from pytest_affine.values import integer, integers, json_field

__all__ = [
    "BLOCK_RULES",
    "KINDS",
    "Block",
    "Cut",
    "Expert",
    "Flat",
    "Fused",
    "Interleaved",
    "Kind",
    "Split",
    "Vocab",
    "Whole",
    "attention_blocks",
    "kind_from_dict",
    "kind_to_dict",
]

CUT_AXES = ("tp", "cp", "dp")
BLOCK_RULES = ("split", "whole", "kv")


@dataclass(frozen=True, slots=True)
class Whole:
    """Every rank holds all of it: norms, routers, biases that are added after a reduction."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that it is cut over."""
        return ()


@dataclass(frozen=True, slots=True)
class Cut:
    """`dim` cut over a mesh axis, "tp", "cp" or "dp".

    A strided cut is DTensor's `_StridedShard`: it cuts each of the blocks that the later cuts of
    the same dim make, at the same offsets in all of them.
    """

    axis: str
    dim: int
    strided: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        one_of(self.axis, CUT_AXES, "axis")
        object.__setattr__(self, "dim", integer(self.dim, "dim"))
        flag(self.strided, "strided")


@dataclass(frozen=True, slots=True)
class Split:
    """Cuts in order, each of what the former left.

    Attributes:
        cuts: the cuts; each mesh axis cuts once at most.
        uneven: parts are `torch.chunk`'s, the last ones smaller or empty; otherwise all are equal,
            and what does not divide is refused.
    """

    cuts: tuple[Cut, ...]
    uneven: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "cuts", records(self.cuts, Cut, "cuts"))
        flag(self.uneven, "uneven")
        if twice := [axis for axis, times in Counter(self.axes).items() if times > 1]:
            raise InvalidMapError(
                f"cuts must name a mesh axis at most once, got {twice} more often"
            )

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that it is cut over."""
        return tuple(cut.axis for cut in self.cuts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A named block of a fused parameter: how long it is, and what a tensor-parallel rank holds.

    Attributes:
        name: for people, such as "q" or "up".
        size: its length along the fused dim.
        rule: "split": each rank holds as many heads as any other, in order; "whole": each holds
            all of it; "kv": as split while there are at least as many heads as ranks, else rank r
            of t holds head `r * heads // t`.
        head_dim: length of a head, which is never cut; 1 where there are none.
    """

    name: str
    size: int
    rule: str = "split"
    head_dim: int = 1

    def __post_init__(self) -> None:
        """Check the fields."""
        text(self.name, "name")
        one_of(self.rule, BLOCK_RULES, "rule")
        for field in ("size", "head_dim"):
            object.__setattr__(self, field, positive(getattr(self, field), field))
        if self.size % self.head_dim:
            raise InvalidMapError(
                f"size of block {self.name!r} must be a multiple of its head_dim {self.head_dim}, "
                f"got {self.size}"
            )

    @property
    def num_heads(self) -> int:
        """How many heads it has."""
        return self.size // self.head_dim


def attention_blocks(*, heads: int, kv_heads: int, head_dim: int) -> tuple[Block, Block, Block]:
    """The blocks of fused queries, keys and values with `heads` query and `kv_heads` KV heads."""
    width = positive(kv_heads, "kv_heads") * positive(head_dim, "head_dim")
    return (
        Block(name="q", size=positive(heads, "heads") * head_dim, head_dim=head_dim),
        Block(name="k", size=width, rule="kv", head_dim=head_dim),
        Block(name="v", size=width, rule="kv", head_dim=head_dim),
    )


@dataclass(frozen=True, slots=True)
class Fused:
    """Named blocks end to end along `dim`; a shard holds its part of each, in their order."""

    blocks: tuple[Block, ...]
    dim: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "blocks", records(self.blocks, Block, "blocks"))
        object.__setattr__(self, "dim", integer(self.dim, "dim"))

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that it is cut over."""
        return ("tp",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
    """Groups end to end along `dim`, each of the same named blocks: queries, then K and V.

    The heads of a block are counted through all groups, and a rank holds those that the block's
    rule gives it, as with `Fused`.

    Attributes:
        groups: how many groups.
        blocks: the blocks of one group.
        dim: the axis of the groups.
        shard_groups: None: a shard keeps the order of the full tensor. A number: a shard is that
            many groups, each with an equal part of the rank's heads of each block; 1 puts the
            blocks end to end.
    """

    groups: int
    blocks: tuple[Block, ...]
    dim: int = 0
    shard_groups: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "groups", positive(self.groups, "groups"))
        object.__setattr__(self, "blocks", records(self.blocks, Block, "blocks"))
        object.__setattr__(self, "dim", integer(self.dim, "dim"))
        if self.shard_groups is not None:
            object.__setattr__(self, "shard_groups", positive(self.shard_groups, "shard_groups"))

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that it is cut over."""
        return ("tp",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expert:
    """Experts end to end along `dim`; an expert-parallel rank holds its own, by ascending number.

    Attributes:
        num_experts: how many experts; they share `dim` equally.
        dim: the axis of the experts.
        table: for each expert its expert-parallel rank; None: contiguous, equally many each.
        etp_dim: the axis that expert tensor parallelism cuts, each expert for itself where it is
            `dim`; None: whole on all its ranks.
    """

    num_experts: int
    dim: int = 0
    table: tuple[int, ...] | None = None
    etp_dim: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "num_experts", positive(self.num_experts, "num_experts"))
        object.__setattr__(self, "dim", integer(self.dim, "dim"))
        if self.etp_dim is not None:
            object.__setattr__(self, "etp_dim", integer(self.etp_dim, "etp_dim"))
        if self.table is not None:
            object.__setattr__(self, "table", integers(self.table, "table"))
            if len(self.table) != self.num_experts:
                raise InvalidMapError(
                    f"table must have {self.num_experts} entries, one per expert, "
                    f"got {len(self.table)}"
                )

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that it is cut over, of the expert mesh."""
        return ("ep", "etp")


@dataclass(frozen=True, slots=True)
class Vocab:
    """Rows padded at the end to a multiple, then split equally over the tensor-parallel ranks."""

    multiple: int

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "multiple", positive(self.multiple, "multiple"))

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that it is cut over."""
        return ("tp",)


@dataclass(frozen=True, slots=True)
class Flat:
    """Flattened, and cut with its whole group in one interval per data-parallel rank, as ZeRO does.

    Attributes:
        offset: elements of the group before it.
        padded_total: elements of the group with its padding, which the ranks share equally.
    """

    offset: int
    padded_total: int

    def __post_init__(self) -> None:
        """Check the fields."""
        for field in ("offset", "padded_total"):
            number = integer(getattr(self, field), field)
            if number < 0:
                raise InvalidMapError(f"{field} must be 0 or more, got {number}")
            object.__setattr__(self, field, number)

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that it is cut over."""
        return ("dp",)


Kind: TypeAlias = Whole | Split | Fused | Interleaved | Expert | Vocab | Flat

KINDS: dict[str, type[Kind]] = {
    kind.__name__.lower(): kind for kind in (Whole, Split, Fused, Interleaved, Expert, Vocab, Flat)
}


def kind_to_dict(kind: Kind) -> dict[str, Any]:
    """A kind as JSON-ready values: its name under "kind", and its fields."""
    return {"kind": type(kind).__name__.lower(), **write_entry(kind)}


def kind_from_dict(entry: object, where: str = "kind") -> Kind:
    """Read what `kind_to_dict` writes; `InvalidMapError` names the field at `where`."""
    name = one_of(json_field(entry, "kind", str, where), tuple(KINDS), f"{where}.kind")
    values: Any = entry
    return read_entry(KINDS[name], {k: v for k, v in values.items() if k != "kind"}, where)
