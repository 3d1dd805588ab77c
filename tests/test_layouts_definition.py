"""Every kind, defined element by element, against what `describe` says.

The definition is slow and obvious: for each axis it lists the indices that a rank holds, in the
shard's order, None being padding; the shard is the product of these lists.
"""

import itertools
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_affine import truth
from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.layouts import (
    Block,
    Cut,
    Expert,
    Flat,
    Fused,
    Interleaved,
    Layout,
    Parameter,
    Split,
    Vocab,
    Whole,
    attention_blocks,
    describe,
)


class DoesNotDivideError(Exception):
    """The definition asks for equal parts, and there are none."""


def part(items, number, index):
    """Part `index` of `number` equal parts."""
    if len(items) % number:
        raise DoesNotDivideError
    size = len(items) // number
    return items[index * size : (index + 1) * size]


def chunk(items, number, index):
    """Part `index` of `number` as torch.chunk cuts; the last ones may be short or empty."""
    size = math.ceil(len(items) / number)
    return items[index * size : (index + 1) * size]


def place_of(layout, rank, **axes):
    """A rank's index on each axis; `axes` gives name and degree of what the order lists."""
    place = {}
    for axis in layout.order.split("-"):
        name, degree = axes[axis]
        place[name] = rank % degree
        rank //= degree
    return place


def dense_place(layout, rank):
    return place_of(
        layout,
        rank,
        tp=("tp", layout.tp),
        cp=("cp", layout.cp),
        ep=("one", 1),
        dp=("dp", layout.dp),
        pp=("pp", layout.pp),
    )


def expert_place(layout, rank):
    edp = layout.tp * layout.cp * layout.dp // (layout.etp * layout.ep)
    return place_of(
        layout,
        rank,
        tp=("etp", layout.etp),
        cp=("one", 1),
        ep=("ep", layout.ep),
        dp=("edp", edp),
        pp=("pp", layout.pp),
    )


def split_axes(kind, shape, layout, place):
    axes = [list(range(extent)) for extent in shape]
    degree = {"tp": layout.tp, "cp": layout.cp, "dp": layout.dp}
    for number, cut in enumerate(kind.cuts):
        dim = cut.dim % len(shape)
        later = [c for c in kind.cuts[number + 1 :] if c.dim % len(shape) == dim]
        factor = math.prod(degree[c.axis] for c in later) if cut.strided else 1
        count, index = degree[cut.axis], place[cut.axis]
        if not kind.uneven and len(axes[dim]) % (factor * count):
            raise DoesNotDivideError
        outer = [chunk(axes[dim], factor, i) for i in range(factor)]
        inner = math.ceil(len(outer[0]) / count)
        axes[dim] = [i for block in outer for i in block[index * inner : (index + 1) * inner]]
    return axes


def holds_head(block, num_heads, head, rank, num_ranks):
    if block.rule == "whole":
        return True
    if block.rule == "kv" and num_ranks > num_heads:
        return head == rank * num_heads // num_ranks
    return head in part(range(num_heads), num_ranks, rank)


def grouped_axis(kind, groups, extent, rank, num_ranks):
    """What a rank holds of the fused dim: {block: [(head, row)]} in the full tensor's order."""
    group = [(b, row) for b, block in enumerate(kind.blocks) for row in range(block.size)]
    assert extent == groups * len(group)
    kept = []
    for row in range(extent):
        b, within = group[row % len(group)]
        block = kind.blocks[b]
        per_group = block.size // block.head_dim
        head = row // len(group) * per_group + within // block.head_dim
        if holds_head(block, groups * per_group, head, rank, num_ranks):
            kept.append((b, head, row))
    return kept


def fused_axis(kind, extent, rank, num_ranks):
    return [row for _, _, row in grouped_axis(kind, 1, extent, rank, num_ranks)]


def interleaved_axis(kind, extent, rank, num_ranks):
    kept = grouped_axis(kind, kind.groups, extent, rank, num_ranks)
    if kind.shard_groups is None:
        return [row for _, _, row in kept]
    rows = []
    for index in range(kind.shard_groups):
        for b in range(len(kind.blocks)):
            heads = sorted({head for block, head, _ in kept if block == b})
            mine = part(heads, kind.shard_groups, index)
            rows += [row for block, head, row in kept if block == b and head in mine]
    return rows


def expert_axes(kind, shape, layout, place):
    axes = [list(range(extent)) for extent in shape]
    dim = kind.dim % len(shape)
    experts = [part(axes[dim], kind.num_experts, e) for e in range(kind.num_experts)]
    cut_dim = None if kind.etp_dim is None else kind.etp_dim % len(shape)
    if cut_dim == dim:
        experts = [part(rows, layout.etp, place["etp"]) for rows in experts]
    elif cut_dim is not None:
        axes[cut_dim] = part(axes[cut_dim], layout.etp, place["etp"])
    if kind.table is None:
        mine = part(range(kind.num_experts), layout.ep, place["ep"])
    else:
        mine = [e for e in range(kind.num_experts) if kind.table[e] == place["ep"]]
    axes[dim] = [row for e in mine for row in experts[e]]
    return axes


def defined_axes(layout, parameter, rank):
    kind, shape = parameter.kind, parameter.shape
    axes = [list(range(extent)) for extent in shape]
    place = dense_place(layout, rank)
    match kind:
        case Split():
            return split_axes(kind, shape, layout, place)
        case Fused():
            axes[kind.dim] = fused_axis(kind, shape[kind.dim], place["tp"], layout.tp)
        case Interleaved():
            axes[kind.dim] = interleaved_axis(kind, shape[kind.dim], place["tp"], layout.tp)
        case Expert():
            return expert_axes(kind, shape, layout, expert_place(layout, rank))
        case Vocab():
            rows = axes[0] + [None] * (-len(axes[0]) % kind.multiple)
            axes[0] = part(rows, layout.tp, place["tp"])
        case Flat():
            group = [None] * kind.padded_total
            group[kind.offset : kind.offset + math.prod(shape)] = range(math.prod(shape))
            mine = part(group, layout.dp, place["dp"])
            return [[element for element in mine if element is not None]]
    return axes


def address(index, shape):
    """Row-major address; None if any index is."""
    if None in index:
        return None
    result = 0
    for at, extent in zip(index, shape, strict=True):
        result = result * extent + at
    return result


def defined(layout, parameter):
    """{rank: (shard shape, elements in its order)}; None where something does not divide."""
    shards = {}
    flat = isinstance(parameter.kind, Flat)
    shape = (math.prod(parameter.shape),) if flat else parameter.shape
    for rank in range(layout.num_ranks):
        if dense_place(layout, rank)["pp"] in parameter.stages:
            try:
                axes = defined_axes(layout, parameter, rank)
            except DoesNotDivideError:
                return None
            elements = [address(index, shape) for index in itertools.product(*axes)]
            shards[rank] = (tuple(map(len, axes)), elements)
    return shards


def described(layout, parameter):
    try:
        map_ = describe(layout, parameter)
    except UnsupportedLayoutError:
        return None
    truth.assert_valid(map_)
    return {
        rank: (map_.shard_shape(rank), list(truth.element_at(map_, rank)))
        for rank in map_.locations
    }


DEGREES = [d for d in itertools.product((1, 2, 3, 4), repeat=4) if math.prod(d) <= 16]


@st.composite
def layouts(draw):
    tp, cp, dp, pp = draw(st.sampled_from(DEGREES))
    etp = draw(st.sampled_from([d for d in range(1, tp + 1) if tp * cp * dp % d == 0]))
    rest = tp * cp * dp // etp
    ep = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
    faster = "-".join(draw(st.permutations(["tp", "cp", "ep", "dp"])))
    # With pp elsewhere the meshes may disagree, which has a test of its own.
    order = draw(st.sampled_from([f"{faster}-pp", f"pp-{faster}"]))
    return Layout(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, etp=etp, order=order)


small = st.integers(1, 4)


@st.composite
def split_parameters(draw, layout):
    shape = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    axes = draw(st.lists(st.sampled_from(["tp", "cp", "dp"]), min_size=1, unique=True))
    dims = st.integers(-len(shape), len(shape) - 1)
    cuts = tuple(Cut(axis, draw(dims), draw(st.booleans())) for axis in axes)
    if draw(st.booleans()):
        return Split(cuts, uneven=True), shape
    for cut in cuts:
        shape[cut.dim] *= getattr(layout, cut.axis)
    return Split(cuts), [min(extent, 64) for extent in shape]


@st.composite
def block_lists(draw, num_ranks):
    rules = draw(st.lists(st.sampled_from(["split", "whole", "kv"]), min_size=1, max_size=3))
    blocks = []
    for rule in rules:
        head_dim = draw(st.integers(1, 2))
        heads = draw(small) * (num_ranks if rule == "split" and draw(st.booleans()) else 1)
        blocks.append(Block(name=rule, size=heads * head_dim, rule=rule, head_dim=head_dim))
    return tuple(blocks)


def beside(draw, dim, extent):
    """A shape with this extent at `dim`, and up to two other axes."""
    shape = draw(st.lists(st.integers(1, 2), min_size=dim, max_size=2))
    return [*shape[:dim], extent, *shape[dim:]]


@st.composite
def fused_parameters(draw, layout):
    blocks, dim = draw(block_lists(layout.tp)), draw(st.integers(0, 1))
    return Fused(blocks, dim), beside(draw, dim, sum(block.size for block in blocks))


@st.composite
def interleaved_parameters(draw, layout):
    groups, dim = draw(small), draw(st.integers(0, 1))
    if draw(st.booleans()):
        blocks = draw(block_lists(layout.tp))
    else:
        heads = draw(small) * layout.tp
        blocks = attention_blocks(heads=heads, kv_heads=1, head_dim=1)
    kind = Interleaved(
        groups=groups,
        blocks=blocks,
        dim=dim,
        shard_groups=draw(st.sampled_from([None, 1, groups])),
    )
    return kind, beside(draw, dim, groups * sum(block.size for block in blocks))


@st.composite
def expert_parameters(draw, layout):
    num_experts, dim = draw(small) * draw(st.sampled_from([1, layout.ep])), draw(st.integers(0, 1))
    ranks = st.integers(0, layout.ep - 1)
    shape = beside(draw, dim, num_experts * draw(st.integers(1, 2)) * layout.etp)
    etp_dim = draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    if etp_dim is not None and etp_dim % len(shape) != dim and draw(st.booleans()):
        shape[etp_dim] *= layout.etp
    kind = Expert(
        num_experts=num_experts,
        dim=dim,
        table=draw(st.none() | st.lists(ranks, min_size=num_experts, max_size=num_experts)),
        etp_dim=etp_dim,
    )
    return kind, shape


@st.composite
def vocab_parameters(draw, layout):
    multiple = draw(small) * draw(st.sampled_from([1, layout.tp]))
    return Vocab(multiple), beside(draw, 0, draw(st.integers(0, 12)))


@st.composite
def flat_parameters(draw, layout):
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    offset = draw(st.integers(0, 9))
    total = offset + math.prod(shape) + draw(st.integers(0, 9))
    if draw(st.booleans()):
        total += -total % layout.dp
    return Flat(offset, total), shape


KINDS = {
    "whole": lambda layout: st.tuples(st.just(Whole()), st.lists(st.integers(0, 3), max_size=3)),
    "split": split_parameters,
    "fused": fused_parameters,
    "interleaved": interleaved_parameters,
    "expert": expert_parameters,
    "vocab": vocab_parameters,
    "flat": flat_parameters,
}


@pytest.mark.parametrize("name", KINDS)
def test_describe_says_what_the_definition_says(name):
    supported = 0

    @settings(
        max_examples=60,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(data=st.data())
    def agrees(data):
        nonlocal supported
        layout = data.draw(layouts())
        kind, shape = data.draw(KINDS[name](layout))
        stages = data.draw(st.sets(st.integers(0, layout.pp - 1), min_size=1))
        parameter = Parameter(
            name="weight", shape=shape, dtype="float32", kind=kind, stages=tuple(stages)
        )
        wanted = defined(layout, parameter)
        assert described(layout, parameter) == wanted
        supported += wanted is not None

    agrees()
    assert supported >= 20
