"""The probe in one process, which has the tensors of all locations."""

from dataclasses import replace

import pytest
import torch

from pytest_affine.builders import (
    block_gather_map,
    contiguous_split_map,
    flat_map,
    replicated_map,
    sub_param_map,
)
from pytest_affine.errors import AffineTransferError, InvalidMapError, UnsupportedLayoutError
from pytest_affine.layouts import Block, Expert, Fused, Layout, Parameter, Vocab, Whole
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.probe import Accessors, Probe, ProbeReport, Side, chunks, readings

ROWS = contiguous_split_map((6, 4), [3, 3], 0)
COLUMNS = contiguous_split_map((6, 4), [2, 2], 1)
WHOLE = replicated_map((6, 4), 1)


def states(map_, dtype=torch.bfloat16, name="w"):
    """A state dict per location of a map."""
    return [{name: torch.zeros(shape, dtype=dtype)} for _, shape in map_.shard_shapes]


class Pair:
    """Rows to columns of one parameter, by a refit that changes what it delivers."""

    def __init__(self, source=torch.bfloat16, target=torch.bfloat16):
        self.sources, self.targets = states(ROWS, source), states(COLUMNS, target)

    def full(self):
        return torch.cat([state["w"] for state in self.sources])

    def probe(self, **options):
        return Probe(
            source=Side(maps={"w": ROWS}, tensors=self.sources),
            target=Side(maps={"w": COLUMNS}, tensors=self.targets),
            **options,
        )

    def report(self, change=lambda full: full, take=lambda columns: columns):
        def refit():
            full = change(self.full())
            for at, state in enumerate(self.targets):
                state["w"].copy_(take(full[:, 2 * at : 2 * at + 2]))

        return self.probe().run(refit)


def kinds(report):
    return [(fault.location, fault.kind, fault.num_elements) for fault in report.faults]


DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int64,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_right_refit_is_conformant_in_every_dtype(dtype):
    report = Pair(dtype, dtype).report()
    report.check()
    assert report.outcomes == {"w": "conformant"}
    assert report.judged == (("w", 0), ("w", 1))
    assert report.wire == "not needed"


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_wrong_element_is_found_in_every_dtype(dtype):
    pair = Pair(dtype, dtype)

    def exchange(full):
        full[[1, 2], 3] = full[[2, 1], 3]
        return full

    faults = pair.report(exchange).faults
    assert {(fault.location, fault.kind) for fault in faults} == {(1, "swapped blocks")}
    assert [(fault.origin, fault.shape) for fault in faults] == [((1, 1), (2, 1))]


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_never_written_is_found_in_every_dtype(dtype):
    pair = Pair(dtype, dtype)
    found = kinds(pair.probe().run(lambda: None))
    assert found == [(0, "not written", 12), (1, "not written", 12)]


@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_values_of_the_first_run_are_stale(dtype):
    pair, first = Pair(dtype, dtype), []

    def cached(full):
        first.append(full.clone())
        return first[0]

    assert {(location, kind) for location, kind, _ in kinds(pair.report(cached))} == {
        (0, "stale"),
        (1, "stale"),
    }


def test_values_of_the_run_before_are_stale():
    map_ = replicated_map((300,), 1)
    sources, targets, late = states(map_), states(map_), []

    def refit():
        late.append(sources[0]["w"].clone())
        targets[0]["w"].copy_(late[max(0, len(late) - 2)])

    probe = Probe(
        source=Side(maps={"w": map_}, tensors=sources),
        target=Side(maps={"w": map_}, tensors=targets),
    )
    assert ("stale", 300) in {(kind, number) for _, kind, number in kinds(probe.run(refit))}


def half(columns):
    kept = torch.full_like(columns, -1)
    kept[:4] = columns[:4]
    return kept


def reversed_rows(columns):
    return columns.flip(0)


PATTERNS = {
    "cut": (lambda full: full, half, 4, "nothing was written from there on"),
    "constant": (lambda full: full * 0, lambda c: c, 12, "holds 0.0 after every run"),
    "transposed": (
        lambda full: full,
        lambda columns: columns.t().reshape(6, 2),
        10,
        "rows and columns are exchanged: w[1, 0] is where w[0, 1] belongs",
    ),
    "broadcast": (
        lambda full: full,
        lambda columns: columns[:1],
        10,
        "one index along axis 0 is repeated: w[0, 0] is where w[1, 0] belongs",
    ),
    "shifted": (
        lambda full: full,
        lambda columns: columns[[1, 2, 3, 4, 5, 5]],
        10,
        "taken from 1 further along axis 0: w[1, 0] is where w[0, 0] belongs",
    ),
    "wrong strides": (
        lambda full: full,
        lambda columns: columns[[0, 2, 4, 0, 2, 4]],
        10,
        "neighbours along axis 0 are 8 elements of the full tensor apart, and should be 4",
    ),
    "swapped blocks": (
        lambda full: full[[3, 4, 5, 0, 1, 2]],
        lambda columns: columns,
        12,
        "its elements are all there, in another order: w[3, 0] is where w[0, 0] belongs",
    ),
    "wrong cast": (
        lambda full: full.to(torch.float8_e5m2),
        lambda columns: columns,
        12,
        "the values are rounded to float8_e5m2",
    ),
}


@pytest.mark.parametrize("kind", PATTERNS)
def test_the_kind_of_a_fault_is_guessed_from_its_pattern(kind):
    change, take, num_elements, text = PATTERNS[kind]
    first = Pair().report(change, take).faults[0]
    assert (first.location, first.kind, first.num_elements) == (0, kind, num_elements)
    assert first.text.startswith(text)


def test_values_that_are_multiplied_are_a_wrong_cast():
    fault = Pair().report(lambda full: full * 0.5).faults[0]
    assert (fault.kind, fault.text) == ("wrong cast", "the values are multiplied by 0.5")


def test_values_that_nothing_explains_are_shown():
    fault = Pair().report(lambda full: full + 0.5).faults[0]
    assert fault.kind == "unknown values"
    assert fault.text == "held [0.5, 256.0] after the runs and had to hold [0.0, 255.0]"


@pytest.mark.parametrize(
    "order",
    [
        [at * at % 400 for at in range(400)],
        torch.randperm(400, generator=torch.Generator().manual_seed(0)).tolist(),
    ],
    ids=["some", "all"],
)
def test_elements_in_no_order_are_scattered(order):
    map_ = replicated_map((400,), 1)
    sources, targets = states(map_), states(map_)

    def refit():
        targets[0]["w"].copy_(sources[0]["w"][order])

    probe = Probe(
        source=Side(maps={"w": map_}, tensors=sources),
        target=Side(maps={"w": map_}, tensors=targets),
    )
    assert {kind for _, kind, _ in kinds(probe.run(refit))} == {"scattered"}


def test_shards_that_are_exchanged_belong_to_another_location():
    report = Pair().report(lambda full: full[:, [2, 3, 0, 1]])
    assert kinds(report) == [(0, "another shard", 12), (1, "another shard", 12)]
    assert report.faults[0].text.startswith("holds the shard of location 1: w[0, 2] is where")


def test_a_shard_that_two_locations_have_was_replicated():
    report = Pair().report(lambda full: full[:, [0, 1, 0, 1]])
    assert kinds(report) == [(1, "replicated", 12)]


def test_an_exact_cast_is_conformant():
    Pair(torch.bfloat16, torch.float32).report().check()
    Pair(torch.float32, torch.float8_e4m3fn).report().check()
    Pair(torch.int8, torch.float16).report().check()


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (torch.bfloat16, torch.float32, "bits of bfloat16 were taken for float32"),
        (torch.float32, torch.bfloat16, "bits of float32 were taken for bfloat16"),
        (torch.float16, torch.bfloat16, "bits of float16 were taken for bfloat16"),
    ],
)
def test_bits_that_are_taken_for_another_dtype_are_reinterpreted(source, target, words):
    pair = Pair(source, target)

    def refit():
        full = pair.full()
        for at, state in enumerate(pair.targets):
            bits = full[:, 2 * at : 2 * at + 2].contiguous().view(-1).view(target)
            state["w"].view(-1)[: len(bits)] = bits[:12]

    faults = [fault for fault in pair.probe().run(refit).faults if fault.location == 1]
    assert words in {fault.text for fault in faults if fault.kind == "reinterpreted bits"}
    assert {fault.kind for fault in faults} <= {"reinterpreted bits", "cut"}


def two(names=("layers.3.experts.0.bias", "layers.3.experts.1.bias")):
    """Two parameters of equal shape, and their tensors on both sides."""
    maps = dict.fromkeys(names, replicated_map((4,), 1))
    source, target = ({name: torch.zeros(4) for name in names} for _ in range(2))
    return maps, source, target


@pytest.mark.parametrize(
    ("names", "kind", "text"),
    [
        (
            ("layers.3.experts.0.bias", "layers.3.experts.1.bias"),
            "another expert",
            "expert 1 wanted, expert 0 delivered: layers.3.experts.0.bias[0] is where "
            "layers.3.experts.1.bias[0] belongs",
        ),
        (("layers.3.bias", "layers.4.bias"), "another layer", "layer 4 wanted, layer 3 delivered"),
        (("block2.w", "block3.w"), "another layer", "layer 3 wanted, layer 2 delivered"),
        (("a.w1", "a.w2"), "another parameter", "w 2 wanted, w 1 delivered"),
        (("embed", "head"), "another parameter", "head wanted, embed delivered"),
        (("a.1.2", "a.3.4"), "another parameter", "a.3.4 wanted, a.1.2 delivered"),
    ],
)
def test_elements_of_another_parameter_are_told_by_the_names(names, kind, text):
    maps, source, target = two(names)

    def refit():
        for name in names:
            target[name].copy_(source[names[0]])

    probe = Probe(
        source=Side(maps=maps, tensors=[source]), target=Side(maps=maps, tensors=[target])
    )
    (fault,) = probe.run(refit).faults
    assert (fault.parameter, fault.kind, fault.num_elements) == (names[1], kind, 4)
    assert fault.text.startswith(text)


def test_elements_of_a_parameter_of_another_dtype_are_recognised():
    names = ("a", "b")
    maps, source, target = two(names)
    source["b"], target["b"] = source["b"].bfloat16(), target["b"].bfloat16()

    def refit():
        target["a"].copy_(source["b"])
        target["b"].copy_(source["b"])

    probe = Probe(
        source=Side(maps=maps, tensors=[source]), target=Side(maps=maps, tensors=[target])
    )
    (fault,) = probe.run(refit).faults
    assert (fault.parameter, fault.kind) == ("a", "another parameter")


def layout_probe(kind, shape, refit, tp=1):
    """Whole to whole of one parameter with a layout."""
    parameter = Parameter(name="w", shape=shape, dtype="float32", kind=kind)
    source, target = {"w": torch.zeros(shape)}, {"w": torch.zeros(shape)}
    probe = Probe(
        source=Side.of_layout(Layout(), [parameter], [source]),
        target=Side.of_layout(Layout(), [parameter], [target]),
    )
    return probe.run(lambda: target["w"].copy_(refit(source["w"])))


def test_blocks_of_a_fused_parameter_are_named():
    blocks = tuple(Block(name=name, size=size) for name, size in (("q", 4), ("k", 2), ("v", 2)))
    report = layout_probe(Fused(blocks), (8, 3), lambda full: full[[0, 1, 2, 3, 6, 7, 6, 7]])
    (fault,) = report.faults
    assert (fault.kind, fault.origin, fault.shape) == ("another block", (4, 0), (2, 3))
    assert fault.text == "k wanted, v delivered: w[6, 0] is where w[4, 0] belongs"


def test_experts_that_are_stacked_are_named_and_the_rest_is_told_apart():
    report = layout_probe(
        Expert(num_experts=4), (8, 3), lambda full: full[[0, 1, 0, 1, 4, 5, 7, 7]]
    )
    texts = {(fault.kind, fault.origin, fault.text) for fault in report.faults}
    assert texts == {
        (
            "another expert",
            (2, 0),
            "expert 1 wanted, expert 0 delivered: w[0, 0] is where w[2, 0] belongs",
        ),
        (
            "shifted",
            (6, 0),
            "taken from 1 further along axis 0: w[7, 0] is where w[6, 0] belongs",
        ),
    }


def test_padding_that_is_delivered_is_named_and_padding_of_targets_is_not_looked_at():
    source = Parameter(name="w", shape=(5, 2), dtype="bfloat16", kind=Vocab(8))
    target = replace(source, kind=Vocab(6))
    rows, padded = {"w": torch.zeros(8, 2).bfloat16()}, {"w": torch.zeros(6, 2).bfloat16()}
    probe = Probe(
        source=Side.of_layout(Layout(), [source], [rows]),
        target=Side.of_layout(Layout(), [target], [padded]),
    )
    probe.run(lambda: padded["w"].copy_(rows["w"][:6])).check()
    (fault,) = probe.run(lambda: padded["w"].copy_(rows["w"][[0, 1, 2, 3, 6, 6]])).faults
    assert (fault.kind, fault.origin, fault.num_elements) == ("padding", (4, 0), 2)


def test_nan_where_no_source_has_padding_is_a_constant():
    assert {kind for _, kind, _ in kinds(Pair().report(lambda full: full * float("nan")))} == {
        "constant"
    }


def test_what_lies_in_padding_does_not_hide_whose_shard_it_is():
    pieces = {at: [AffinePiece((2,), 2 * at, (1,), 0, (1,), (at,))] for at in (0, 1)}
    padding = {at: [Padding((1,), 2, (1,))] for at in (0, 1)}
    padded = ParamAffineMap((4,), {0: (3,), 1: (3,)}, pieces, padding)
    source, targets = {"w": torch.zeros(4)}, states(padded, torch.float32)
    probe = Probe(
        source=Side(maps={"w": replicated_map((4,), 1)}, tensors=[source]),
        target=Side(maps={"w": padded}, tensors=targets),
    )

    def refit():
        targets[0]["w"].copy_(source["w"][[2, 3, 0]])
        targets[1]["w"].copy_(source["w"][[0, 1, 0]])

    assert kinds(probe.run(refit)) == [(0, "another shard", 2), (1, "another shard", 2)]


def test_a_refit_that_writes_to_its_source_is_told():
    pair = Pair()

    def refit():
        for at, state in enumerate(pair.targets):
            state["w"].copy_(pair.full()[:, 2 * at : 2 * at + 2])
        pair.sources[1]["w"][2] = 7

    (fault,) = pair.probe().run(refit).faults
    assert (fault.location, fault.kind, fault.origin) == (1, "source changed", (2, 0))


def test_a_tensor_that_a_refit_replaced_is_read_and_one_of_another_shape_or_dtype_is_told():
    pair = Pair()

    def refit():
        full = pair.full()
        pair.targets[0]["w"] = full[:, :2].contiguous()
        pair.targets[1] = {"w": full[:, 2:].float()} if wrong == "dtype" else {"w": full}

    wrong = "dtype"
    (fault,) = pair.probe().run(refit).faults
    assert (fault.location, fault.kind) == (1, "wrong tensor")
    assert fault.text == "after the refit the target: its dtype must be bfloat16, got float32"
    pair.targets[1], wrong = {"w": pair.targets[0]["w"].clone()}, "shape"
    (fault,) = pair.probe().run(refit).faults
    assert fault.text == "after the refit the target: its shape must be (6, 2), got (6, 4)"


def test_a_refusal_is_told_and_the_refit_is_called_in_every_run():
    pair, calls = Pair(), []

    def refit():
        calls.append(len(calls))
        raise ValueError("no such plan")

    report = pair.probe().run(refit)
    assert calls == [0, 1]
    assert (report.outcome, report.outcomes) == ("refused", {"w": "refused"})
    assert report.refusals == ((0, "run 0: ValueError: no such plan"),)
    with pytest.raises(AssertionError, match="rank 0 refused: run 0: ValueError: no such plan"):
        report.check()


def test_a_shard_that_no_process_has_is_not_judged():
    pair = Pair()
    del pair.targets[1]
    report = pair.probe().run(lambda: pair.targets[0]["w"].copy_(pair.full()[:, :2]))
    assert (report.outcome, report.unjudged) == ("not judged", (("w", 1),))
    with pytest.raises(AssertionError, match="w: location 1 was not judged"):
        report.check()


def test_reports_of_several_processes_are_merged():
    report = Pair().report(lambda full: full[:, [0, 1, 0, 1]])
    parts = [
        replace(
            report,
            judged=(("w", at),),
            faults=tuple(
                replace(fault, kind="another shard")
                for fault in report.faults
                if fault.location == at
            ),
        )
        for at in (0, 1)
    ]
    assert parts[1].outcomes == {"w": "violated"}
    merged = ProbeReport.merge(parts)
    assert merged.unjudged == ()
    assert kinds(merged) == [(1, "replicated", 12)]


def test_restore_puts_all_values_back():
    pair = Pair()
    for state in (*pair.sources, *pair.targets):
        state["w"].normal_()
    before = [state["w"].clone() for state in (*pair.sources, *pair.targets)]
    pair.probe(restore=True).run(lambda: None)
    after = [state["w"] for state in (*pair.sources, *pair.targets)]
    assert all(map(torch.equal, before, after))


def test_restore_puts_values_back_when_the_sides_are_refused():
    source, target = {"w": torch.ones(6, 4)}, {"w": torch.ones(6, 4)}
    maps = {"v": WHOLE, "w": WHOLE}
    probe = Probe(
        source=Side(maps=maps, tensors=[source], names={"v": "w"}),
        target=Side(maps=maps, tensors=[target], names={"v": "w"}),
        restore=True,
    )
    with pytest.raises(AffineTransferError, match="share memory"):
        probe.run(lambda: None)
    assert bool((source["w"] == 1).all() & (target["w"] == 1).all())


def test_without_restore_sources_hold_the_digits_of_the_last_run():
    pair = Pair()
    pair.probe().run(lambda: None)
    assert pair.full().flatten().tolist() == [255 - number for number in range(24)]


def test_tensors_that_are_parameters_or_not_packed_are_written_and_read():
    wide, module = torch.zeros(4, 6, dtype=torch.float32).t(), torch.nn.Linear(4, 6, bias=False)
    probe = Probe(
        source=Side(maps={"weight": WHOLE}, tensors=[module]),
        target=Side(maps={"weight": WHOLE}, tensors=[lambda: {"weight": wide}]),
    )
    assert not wide.is_contiguous()
    probe.run(lambda: wide.copy_(module.weight.detach())).check()
    assert module.weight.requires_grad
    (fault,) = probe.run(lambda: wide.copy_(module.weight.detach().flip(0))).faults
    assert fault.kind == "swapped blocks"


def test_sources_that_are_not_packed_are_filled():
    source, target = torch.zeros(4, 6).t(), torch.zeros(6, 4)
    probe = Probe(
        source=Side(maps={"w": WHOLE}, tensors=[{"w": source}]),
        target=Side(maps={"w": WHOLE}, tensors=[{"w": target}]),
    )
    probe.run(lambda: target.copy_(source)).check()


def test_targets_that_are_the_memory_of_the_sources_are_conformant():
    shared = torch.zeros(6, 4)
    source = [{"w": shared[:3]}, {"w": shared[3:]}]
    probe = Probe(
        source=Side(maps={"w": ROWS}, tensors=source),
        target=Side(maps={"w": WHOLE}, tensors=[{"w": shared}]),
    )
    probe.run(lambda: None).check()


def test_several_local_names_are_copies_and_names_may_depend_on_the_location():
    source = [{"e0": torch.zeros(3, 4)}, {"e1": torch.zeros(3, 4)}]
    target = {"embed": torch.zeros(6, 4), "head": torch.zeros(6, 4)}
    probe = Probe(
        source=Side(maps={"w": ROWS}, tensors=source, names=lambda name, at: f"e{at}"),
        target=Side(maps={"w": WHOLE}, tensors=[target], names={"w": ("embed", "head")}),
    )

    def refit():
        target["embed"].copy_(torch.cat([source[0]["e0"], source[1]["e1"]]))

    (fault,) = probe.run(refit).faults
    assert (fault.name, fault.kind) == ("head", "not written")
    assert str(fault).startswith("location 0 (head) [0:6, 0:4], 24 elements: not written")


@pytest.mark.parametrize(
    "map_",
    [
        block_gather_map((8, 3), {0: [3, 0], 1: [1, 2]}, 2, 0),
        sub_param_map((8, 3), [4, 4], [[3, 1], [1, 3]], 0),
        flat_map({"w": (8, 3)}, {0: (0, 7), 1: (7, 24)})["w"],
        contiguous_split_map((8, 3), [8, 0], 0),
        ParamAffineMap((8, 3), {0: (3, 8)}, {0: [AffinePiece((8, 3), 0, (3, 1), 0, (1, 8), (0,))]}),
    ],
    ids=["blocks", "fused", "flat", "an empty shard", "transposed shard"],
)
def test_every_kind_of_map_is_filled_and_read_by_its_elements(map_, monkeypatch):
    monkeypatch.setattr(chunks, "MAX_CHUNK", 4)
    sources, targets = states(map_, torch.float32), states(replicated_map((8, 3), 1))
    targets[0]["w"] = targets[0]["w"].float()
    probe = Probe(
        source=Side(maps={"w": map_}, tensors=sources),
        target=Side(maps={"w": replicated_map((8, 3), 1)}, tensors=targets),
    )

    def refit():
        targets[0]["w"].copy_(map_.rebuild({at: state["w"] for at, state in enumerate(sources)}))

    probe.run(refit).check()
    assert sum(state["w"].numel() for state in sources) == 24


def test_a_scalar_and_an_empty_parameter():
    maps = {"scale": replicated_map((), 1), "none": replicated_map((0, 3), 1)}
    source, target = (
        {name: torch.zeros(map_.logical_shape) for name, map_ in maps.items()} for _ in range(2)
    )
    probe = Probe(
        source=Side(maps=maps, tensors=[source]), target=Side(maps=maps, tensors=[target])
    )
    probe.run(lambda: target["scale"].copy_(source["scale"])).check()
    (fault,) = probe.run(lambda: None).faults
    assert str(fault) == "location 0 [], 1 element: not written: nothing was written"


def test_of_a_large_shard_a_part_is_looked_at_and_all_is_counted(monkeypatch):
    monkeypatch.setattr(readings, "MAX_KEPT", 64)
    map_ = replicated_map((300,), 1)
    sources, targets = states(map_), states(map_)
    probe = Probe(
        source=Side(maps={"w": map_}, tensors=sources),
        target=Side(maps={"w": map_}, tensors=targets),
    )

    def refit():
        targets[0]["w"].copy_(sources[0]["w"])
        targets[0]["w"][140:] = -1

    assert kinds(probe.run(refit)) == [(0, "not written", 52), (0, "not looked at", 108)]
    monkeypatch.setattr(readings, "MAX_KEPT_BYTES", 0)
    assert kinds(probe.run(refit)) == [(0, "not looked at", 160)]


def test_an_element_that_is_wrong_in_a_later_run_only_is_recognised():
    map_ = replicated_map((600,), 1)
    sources, targets = states(map_), states(map_)
    probe = Probe(
        source=Side(maps={"w": map_}, tensors=sources),
        target=Side(maps={"w": map_}, tensors=targets),
    )

    def refit():
        targets[0]["w"].copy_(sources[0]["w"])
        targets[0]["w"][300] = sources[0]["w"][44]  # 256 before: the low digits are equal

    (fault,) = probe.run(refit).faults
    assert fault.text == "taken from 256 before along axis 0: w[44] is where w[300] belongs"


def test_what_accessors_give_is_put_back():
    held = {"w": torch.zeros(6, 4)}
    copies = Accessors(
        get=lambda: {name: tensor.clone() for name, tensor in held.items()},
        put=lambda tensors: held.update({name: t.clone() for name, t in tensors.items()}),
    )
    target = torch.zeros(6, 4)
    probe = Probe(
        source=Side(maps={"w": WHOLE}, tensors=[copies]),
        target=Side(maps={"w": WHOLE}, tensors=[{"w": target}]),
    )
    probe.run(lambda: target.copy_(held["w"])).check()


def test_copies_without_accessors_are_refused():
    held = torch.zeros(6, 4)
    probe = Probe(
        source=Side(maps={"w": WHOLE}, tensors=[lambda: {"w": held.clone()}]),
        target=Side(maps={"w": WHOLE}, tensors=[{"w": torch.zeros(6, 4)}]),
    )
    with pytest.raises(AffineTransferError, match=r"'w' at location 0 does not keep .* Accessors"):
        probe.run(lambda: None)


def test_parameters_that_share_memory_in_the_source_are_refused():
    maps, source, target = two(("embed", "head"))
    source["head"] = source["embed"]
    probe = Probe(
        source=Side(maps=maps, tensors=[source]), target=Side(maps=maps, tensors=[target])
    )
    with pytest.raises(AffineTransferError, match="'embed' and 'head' at location 0 share memory"):
        probe.run(lambda: None)


def side(**changes):
    given = {"maps": {"w": WHOLE}, "tensors": [{"w": torch.zeros(6, 4)}]}
    return Side(**{**given, **changes})


SCALED = ParamAffineMap(
    (2,), {0: (2,)}, {0: [AffinePiece((2,), 0, (1,), 0, (1,), (0,), scale=0.5)]}
)
GAP = ParamAffineMap((2,), {0: (1,)}, {0: [AffinePiece((1,), 0, (1,), 0, (1,), (0,))]})


@pytest.mark.parametrize(
    ("source", "target", "error", "text"),
    [
        (
            {"tensors": [{"v": torch.zeros(6, 4)}], "dtypes": "float32"},
            {},
            AffineTransferError,
            r"source tensor 'w' of parameter 'w' at location 0: there is none; there are \['v'\]",
        ),
        (
            {},
            {"tensors": [{"w": torch.zeros(4, 6)}]},
            AffineTransferError,
            r"target tensor 'w' .* its shape must be \(6, 4\), got \(4, 6\)",
        ),
        (
            {},
            {"dtypes": {"w": "bfloat16"}},
            AffineTransferError,
            "its dtype must be bfloat16, got float32",
        ),
        (
            {"tensors": {}},
            {},
            AffineTransferError,
            r"the source has no tensor of \['w'\] in this process, .* give dtypes",
        ),
        (
            {},
            {"maps": {"w": WHOLE, "x": WHOLE}},
            InvalidMapError,
            r"parameters that the source lacks: \['x'\]; the source has \['w'\]",
        ),
        (
            {},
            {"maps": {"w": replicated_map((4, 6), 1)}},
            InvalidMapError,
            r"'w': source and target must have one logical shape, got \(6, 4\) and \(4, 6\)",
        ),
        (
            {"tensors": [{"w": torch.zeros(6, 4, dtype=torch.complex64)}]},
            {},
            UnsupportedLayoutError,
            "elements of complex64",
        ),
    ],
)
def test_sides_that_do_not_fit_are_refused_before_the_refit_runs(source, target, error, text):
    calls = []
    with pytest.raises(error, match=text):
        Probe(source=side(**source), target=side(**target)).run(lambda: calls.append(1))
    assert calls == []


@pytest.mark.parametrize(
    ("map_", "error", "text"),
    [
        (SCALED, UnsupportedLayoutError, "'w': a probe writes numbers, which a scale of 0.5"),
        (GAP, InvalidMapError, "parameter 'w': "),
    ],
)
def test_a_side_refuses_a_map_that_is_wrong_or_has_scales(map_, error, text):
    with pytest.raises(error, match=text):
        side(maps={"w": map_})


def test_a_parameter_that_only_the_source_has_is_recognised_where_it_does_not_belong():
    maps, source, target = two(("a", "b"))
    del target["b"]
    probe = Probe(
        source=Side(maps=maps, tensors=[source]),
        target=Side(maps={"a": maps["a"]}, tensors=[target]),
    )
    (fault,) = probe.run(lambda: target["a"].copy_(source["b"])).faults
    assert fault.text.startswith("a wanted, b delivered: b[0] is where a[0] belongs")


def test_the_report_draws_the_first_shards_and_counts_the_rest():
    names = [f"p{at}" for at in range(6)]
    maps, source, target = two(names)
    text = str(
        Probe(
            source=Side(maps=maps, tensors=[source]), target=Side(maps=maps, tensors=[target])
        ).run(lambda: target["p5"].copy_(source["p5"]))
    )
    assert text.startswith(
        "probe: violated; parameters: 5 violated, 1 conformant\nthe refit ran 2 times; wire"
    )
    assert text.count("    0 ????") == 4


def test_a_parameter_of_another_stage_needs_no_tensor_but_its_dtype():
    parameter = Parameter(name="w", shape=(4,), dtype="float32", kind=Whole(), stages=(1,))
    held = {"w": torch.zeros(4)}
    sides = [
        Side.of_layout(Layout(pp=2), [parameter], tensors)
        for tensors in ({0: {}, 1: held}, {0: {}, 1: {"w": torch.zeros(4)}})
    ]
    probe = Probe(source=sides[0], target=sides[1])
    probe.run(lambda: sides[1].tensors[1]["w"].copy_(held["w"])).check()
