"""The probe on the refit of the example: as it is, and with faults that real resharders had."""

import pytest
from refit_faults import EXAMPLE, FAULTS, build, load

UNSEEN = {"none", "F01", "F02", "F21"}
"""What the probe can't see: a refit that accepts invalid maps when it gets valid ones, names wrong
holders that it never reads, or trusts replicas that agree."""

QKV = {f"layers.{layer}.qkv.{end}" for layer in (0, 1) for end in ("weight", "bias")}
GATE_UP = {"layers.0.gate_up.weight", "layers.0.gate_up.bias"}
COLUMNS = {"layers.0.down.weight", "layers.0.out.weight", "layers.1.out.weight"} | {
    f"layers.1.experts.{expert}.down.weight" for expert in range(4)
}
UP_BIAS = {f"layers.1.experts.{expert}.up.bias" for expert in range(4)}
OTHER_EXPERTS = {
    f"layers.1.experts.{expert}.{name}"
    for expert in (2, 3)
    for name in ("up.weight", "up.bias", "down.weight", "down.bias")
}
VOCABULARIES = {"embed.weight", "head.weight"}
WHOLE = {
    *(f"layers.{layer}.{name}" for layer in (0, 1) for name in ("norm.weight", "out.bias")),
    *(f"layers.1.experts.{expert}.down.bias" for expert in (0, 1, 2, 3)),
    "layers.1.router.weight",
}

SPLIT = {*load().weights()} - WHOLE

FOUND = {
    "F03": ({"positions.weight"}, "positions.weight", "cut"),
    "F04": ({"layers.0.scale.weight", "layers.1.scale.weight"}, "layers.0.scale.weight", "shifted"),
    "F05": ({"positions.weight"}, "positions.weight", "shifted"),
    "F06": ({"positions.weight"}, "positions.weight", "shifted"),
    "F08": (COLUMNS, "layers.0.down.weight", "wrong strides"),
    "F09": (QKV, "layers.0.qkv.weight", "cut"),
    "F10": (QKV, "layers.0.qkv.weight", "another block"),
    "F11": (GATE_UP, "layers.0.gate_up.weight", "another block"),
    "F13": (OTHER_EXPERTS, "layers.1.experts.2.up.bias", "another expert"),
    "F14": (UP_BIAS, "layers.1.experts.1.up.bias", "replicated"),
    "F15": (VOCABULARIES, "embed.weight", "padding"),
    "F19": (SPLIT | OTHER_EXPERTS, "layers.0.down.weight", "not written"),
    "F23": (SPLIT, "layers.0.down.weight", "another shard"),
    "F31": (
        {"layers.0.norm.weight", "layers.1.norm.weight"},
        "layers.0.norm.weight",
        "reinterpreted bits",
    ),
}
"""By fault, the parameters that are violated, and one of them with a kind that is named for it."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.affine_ranks(4, timeout=60)
def test_the_fault_is_found_at_its_parameters_and_named(fault, affine_probe, affine_rank):
    report = affine_probe.run(build, fault, affine_rank)
    assert report.refusals == ()
    violated = {name for name, outcome in report.outcomes.items() if outcome == "violated"}
    if fault in UNSEEN:
        assert violated == set()
        return
    names, name, kind = FOUND[fault]
    assert violated == names
    assert kind in {found.kind for found in report.faults if found.parameter == name}


@pytest.mark.affine_ranks(4, timeout=60)
def test_the_wrong_expert_is_told_in_names_and_coordinates(affine_probe, affine_rank):
    report = affine_probe.run(build, "F13", affine_rank)
    text = str(report)
    assert (
        "location 2 [0:2], 2 elements: another expert: expert 3 wanted, expert 1 delivered: "
        "layers.1.experts.1.up.bias[4] is where layers.1.experts.3.up.bias[4] belongs"
    ) in text
    assert "    location 0, shape (2,)\n      0\n    0 xx\n    x wrong element" in text


def test_the_example_passes_as_it_is(pytester):
    result = pytester.runpytest_subprocess(EXAMPLE, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
