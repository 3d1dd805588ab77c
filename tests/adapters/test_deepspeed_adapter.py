"""The adapter of DeepSpeed; `conftest.py` leaves this file out where DeepSpeed is not installed."""

import json
import pickle
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from deepspeed.checkpoint import affine
from deepspeed.module_inject.layers import LinearLayer, collect_autotp_universal_checkpoint_info

from pytest_affine import (
    AffineTransferError,
    InvalidMapError,
    InvalidReplicaPolicyError,
    ParamAffineMap,
    TransferPlan,
    TransferSegment,
    UnsupportedLayoutError,
    builders,
)
from pytest_affine.adapters.deepspeed import DeepSpeed, read_checkpoint_maps
from pytest_affine.contract.discovery import DiscoveryError, find_implementation
from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.fixtures.syncs import case
from pytest_affine.maps import AffinePiece, Padding
from pytest_affine.plans import PlanBudget, ReplicaRequest

ADAPTER = DeepSpeed()
ROOT = Path(__file__).parents[2]
CHECKPOINTS = [Path(__file__).parent / f"golden/mp_rank_0{rank}_model_states.pt" for rank in (0, 1)]

# By builder: DeepSpeed's own call, and the arguments of the builder here.
BUILDS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "replicated_map": (
        lambda: affine.replicated_map((2, 3), tp_degree=2, scale=0.5),
        {"shape": (2, 3), "num_locations": 2, "scale": 0.5},
    ),
    "contiguous_split_map": (
        lambda: affine.contiguous_split_map((2, 5), per_rank_sizes=[3, 0, 2], partition_dim=1),
        {"shape": (2, 5), "widths": [3, 0, 2], "dim": 1},
    ),
    "sub_param_map": (
        lambda: affine.sub_param_map(
            (8, 2), sub_dim_sizes=[4, 4], shard_widths=[[1, 3], [2, 2]], partition_dim=0
        ),
        {"shape": (8, 2), "block_sizes": [4, 4], "widths_by_block": [[1, 3], [2, 2]], "dim": 0},
    ),
    "segmented_map": (
        lambda: affine.segmented_map(
            (2, 6), [(4, False), (2, True)], partition_dim=1, tp_degree=2, split_widths=[[1, 3]]
        ),
        {
            "shape": (2, 6),
            "segments": [(4, False), (2, True)],
            "dim": 1,
            "num_locations": 2,
            "widths_by_split_block": [[1, 3]],
        },
    ),
    "block_gather_map": (
        lambda: affine.block_gather_map(
            (8, 2), block_ids_by_rank={0: [3, 0], 1: [1, 2]}, block_size=2, partition_dim=0
        ),
        {
            "shape": (8, 2),
            "block_ids_by_location": {0: [3, 0], 1: [1, 2]},
            "block_size": 2,
            "dim": 0,
        },
    ),
}

# Maps of ours that it has no builder for.
OTHERS = {
    "flat_map": builders.flat_map({"weight": (3, 2)}, {0: (4, 6), 1: (0, 4)})["weight"],
    "mesh_map": builders.mesh_map((5, 3), [2, 2], [["shard", 0], ["replicate"]]),
}


def full_tensor(shape: tuple[int, ...]) -> torch.Tensor:
    """Distinct values, so that equal tensors hold the same elements in the same places."""
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape)


def assert_same_elements(ours: ParamAffineMap, theirs: Any) -> None:
    assert ours.logical_shape == theirs.logical_shape
    assert dict(ours.shard_shapes) == theirs.shard_shapes
    full = full_tensor(ours.logical_shape)
    shards = {location: ours.extract(full, location) for location in ours.locations}
    for location, shard in shards.items():
        assert torch.equal(shard, theirs.extract(full, location))
    assert torch.equal(theirs.rebuild(shards), full)


@pytest.mark.parametrize("builder", BUILDS)
def test_a_map_that_deepspeed_wrote_holds_the_same_elements_here(builder: str) -> None:
    theirs = BUILDS[builder][0]()
    document = json.loads(json.dumps(theirs.to_dict()))
    assert_same_elements(ParamAffineMap.from_dict(document), theirs)


OURS = {name: getattr(builders, name)(**arguments) for name, (_, arguments) in BUILDS.items()}


@pytest.mark.parametrize("name", [*OURS, *OTHERS])
def test_a_map_of_ours_holds_the_same_elements_in_deepspeed(name: str) -> None:
    ours = {**OURS, **OTHERS}[name]
    theirs = affine.ParamAffineMap.from_dict(json.loads(json.dumps(ours.to_dict())))
    theirs.validate_coverage()
    assert_same_elements(ours, theirs)


@pytest.mark.parametrize("builder", BUILDS)
def test_a_builder_is_called_with_deepspeeds_names_of_the_arguments(builder: str) -> None:
    call, arguments = BUILDS[builder]
    assert ADAPTER.build_map(builder, **arguments) == ADAPTER.map_from_dict(call().to_dict())


@pytest.mark.parametrize("builder", ["flat_map", "mesh_map"])
def test_a_builder_that_deepspeed_lacks_is_refused(builder: str) -> None:
    message = f"DeepSpeed has no {builder}; it has replicated_map, contiguous_split_map, "
    with pytest.raises(UnsupportedLayoutError, match=message):
        ADAPTER.build_map(builder)


@pytest.mark.parametrize("name", [*OURS, *OTHERS])
def test_a_map_passes_through_deepspeed_unchanged(name: str) -> None:
    map_ = {**OURS, **OTHERS}[name]
    assert ADAPTER.map_from_dict(ADAPTER.map_to_dict(map_)) == map_


def rows(*widths: int) -> ParamAffineMap:
    return builders.contiguous_split_map((sum(widths),), widths, 0)


def whole(size: int, num_locations: int = 1) -> ParamAffineMap:
    return builders.replicated_map((size,), num_locations)


def segment(source: tuple[int, int], target: tuple[int, int], size: int) -> TransferSegment:
    """A copy between packed shards of one axis, each end a (location, offset)."""
    return TransferSegment(
        source_location=source[0],
        source_offset=source[1],
        source_strides=(1,),
        target_location=target[0],
        target_offset=target[1],
        target_strides=(1,),
        shape=(size,),
    )


def test_the_source_is_planned_as_the_source() -> None:
    plan = ADAPTER.plan_transfer(rows(3, 1), rows(0, 4))
    segments = (segment((0, 0), (1, 0), 3), segment((1, 0), (1, 3), 1))
    assert plan == TransferPlan(segments, (4,), None, None, 4)
    assert plan.statistics is not None
    assert (plan.statistics.source_pieces, plan.statistics.target_pieces) == (2, 1)


def test_a_plan_is_written_and_read_in_the_common_form() -> None:
    plan = ADAPTER.plan_transfer(rows(3, 1), rows(0, 4))
    document = ADAPTER.plan_to_dict(plan)
    assert document == plan.to_dict()
    assert ADAPTER.plan_from_dict(json.loads(json.dumps(document))) == plan
    with pytest.raises(InvalidMapError, match="plan lacks the key 'segments'"):
        ADAPTER.plan_from_dict({"logical_shape": [4]})


def test_a_selector_is_asked_in_our_words_and_its_holder_is_read() -> None:
    requests: list[ReplicaRequest] = []

    def last(request: ReplicaRequest) -> int:
        requests.append(request)
        return request.holders[-1]

    plan = ADAPTER.plan_transfer(whole(4, 3), rows(1, 3), replica_selector=last)
    assert plan.segments == (segment((2, 0), (0, 0), 1), segment((2, 1), (1, 0), 3))
    assert requests[1] == ReplicaRequest(
        parameter=None,
        target_location=1,
        logical_origin=(1,),
        shape=(3,),
        holders=(0, 1, 2),
        element_size=1,
        num_bytes=3,
    )


def test_what_a_selector_raises_itself_is_left_as_it_is() -> None:
    def fails(request: ReplicaRequest) -> int:
        raise ValueError("not today")

    with pytest.raises(ValueError, match=r"^not today$") as caught:
        ADAPTER.plan_transfer(whole(4, 2), whole(4), replica_selector=fails)
    assert caught.type is ValueError


TRANSPOSED = ParamAffineMap(
    (2, 2), {0: (2, 2)}, {0: [AffinePiece((2, 2), 0, (2, 1), 0, (1, 2), (0,))]}
)


def one_element(
    full_size: int, shard_size: int, scale: float = 1.0, padding: Sequence[Padding] = ()
) -> ParamAffineMap:
    """A map of one location whose only piece is the first element of both sides."""
    piece = AffinePiece((1,), 0, (1,), 0, (1,), (0,), scale)
    return ParamAffineMap((full_size,), {0: (shard_size,)}, {0: [piece]}, {0: padding})


REFUSALS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "unequal shapes": (
        lambda: ADAPTER.plan_transfer(whole(2), whole(3)),
        InvalidMapError,
        r"source describes \(2,\) and target describes \(3,\)",
    ),
    "transposed": (
        lambda: ADAPTER.plan_transfer(TRANSPOSED, TRANSPOSED),
        UnsupportedLayoutError,
        "source rank 0 piece .* dest axis 0 strides 1, expected 2",
    ),
    "selector": (
        lambda: ADAPTER.plan_transfer(whole(4, 2), whole(4), replica_selector=lambda _: 7),
        InvalidReplicaPolicyError,
        "invalid source rank 7 for target rank 0",
    ),
    "limits": (
        lambda: ADAPTER.plan_transfer(rows(1, 1), whole(2), limits=PlanBudget(max_segments=1)),
        AffineTransferError,
        "2 segments exceeds max_segments 1",
    ),
    "scale of zero": (
        lambda: ADAPTER.plan_transfer(one_element(1, 1, 0.0), whole(1)),
        InvalidMapError,
        "A zero scale is not invertible",
    ),
    "coverage": (
        lambda: ADAPTER.check_map(one_element(2, 1)),
        InvalidMapError,
        r"1 element\(s\) uncovered",
    ),
    "count": (
        lambda: ADAPTER.check_map(one_element(1, 2)),
        InvalidMapError,
        "a shard of 2 elements",
    ),
    "replicas": (
        lambda: ADAPTER.rebuild(whole(1, 2), {0: torch.zeros(1), 1: torch.ones(1)}),
        InvalidMapError,
        r"Ranks \[0, 1\] hold different data",
    ),
    "widths": (
        lambda: ADAPTER.build_map(
            "segmented_map",
            shape=[2],
            segments=[[2, False]],
            dim=0,
            num_locations=2,
            widths_by_split_block=[[1, 0]],
        ),
        InvalidMapError,
        r"Split widths \[1, 0\] do not account",
    ),
    "scale of zero, read": (
        lambda: ADAPTER.map_from_dict(one_element(1, 1, 0.0).to_dict()),
        InvalidMapError,
        "A zero scale is not invertible",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_deepspeed_refuses_with_keeps_its_kind_and_its_text(name: str) -> None:
    call, kind, message = REFUSALS[name]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert caught.type is kind


def test_a_missing_key_stays_the_error_that_deepspeed_raises() -> None:
    with pytest.raises(KeyError, match=r"^'ranks'$"):
        ADAPTER.map_from_dict({"logical_shape": [1]})


def test_an_unknown_location_stays_the_error_that_deepspeed_raises() -> None:
    with pytest.raises(KeyError, match=r"^5$"):
        ADAPTER.extract(whole(1), torch.zeros(1), 5)


def test_a_map_is_checked_up_to_so_many_elements_and_then_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytest_affine.adapters.deepspeed.MAX_WALKED", 4)
    ADAPTER.check_map(whole(2, 2))
    for map_, size in ((whole(5), 5), (whole(2, 3), 6), (one_element(7, 1), 7)):
        message = (
            f"DeepSpeed's validate_coverage visits every element; of {size} it is not asked, of "
            "up to 4 it is"
        )
        with pytest.raises(UnsupportedLayoutError, match=f"^{message}$"):
            ADAPTER.check_map(map_)


PADDED_MAP = one_element(1, 2, padding=[Padding((1,), 1, (1,))])


@pytest.mark.parametrize(
    ("maps", "reason"),
    [
        ((PADDED_MAP, whole(1)), "DeepSpeed's maps have no padding"),
        ((whole(1), PADDED_MAP), "DeepSpeed's maps have no padding"),
        ((whole(1), whole(1)), None),
    ],
)
def test_syncs_with_padding_on_either_side_are_withheld_and_no_others(
    maps: tuple[ParamAffineMap, ParamAffineMap], reason: str | None
) -> None:
    sync = case("padded", maps).sync
    assert sync is not None
    assert ADAPTER.supports(sync) == reason


def test_padding_is_refused_and_never_dropped() -> None:
    with pytest.raises(UnsupportedLayoutError, match="DeepSpeed's maps have no padding"):
        ADAPTER.plan_transfer(whole(1), PADDED_MAP)


def test_deepspeed_passes_over_padding_that_it_reads_and_refuses_to_rebuild() -> None:
    read = affine.ParamAffineMap.from_dict(PADDED_MAP.to_dict())
    with pytest.raises(ValueError, match="a shard of 2 elements but its pieces account for 1"):
        read.rebuild({0: torch.zeros(2)})


def test_where_deepspeed_is_missing_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pytest_affine.adapters.deepspeed")
    monkeypatch.setitem(sys.modules, "deepspeed.checkpoint", None)
    message = (
        "implementation 'deepspeed' (pytest_affine.adapters.deepspeed:DeepSpeed) cannot be "
        "imported: ModuleNotFoundError: import of deepspeed.checkpoint halted; None in "
        'sys.modules; install it with: pip install "pytest-affine[deepspeed]"'
    )
    with pytest.raises(DiscoveryError, match=f"^{re.escape(message)}$"):
        find_implementation("deepspeed")


def test_maps_are_read_from_a_checkpoint_and_describe_its_shards() -> None:
    maps = read_checkpoint_maps(CHECKPOINTS[0])
    assert maps == read_checkpoint_maps(CHECKPOINTS[1])
    states = [torch.load(path, weights_only=True)["module"] for path in CHECKPOINTS]
    split_along = {
        "self_attn.q_proj.weight": 0,
        "self_attn.o_proj.weight": 1,
        "self_attn.o_proj.bias": None,
        "self_attn.norm.weight": None,
        "self_attn.norm.bias": None,
    }
    assert set(maps) == {f"^{re.escape(name)}$" for name in split_along}
    for name, dim in split_along.items():
        shards = [state[name] for state in states]
        rebuilt = maps[f"^{re.escape(name)}$"].rebuild(dict(enumerate(shards)))
        assert torch.equal(rebuilt, shards[0] if dim is None else torch.cat(shards, dim))


def saved(tmp_path: Path, state: dict[str, Any]) -> Path:
    path = tmp_path / "mp_rank_00_model_states.pt"
    torch.save(state, path)
    return path


def test_maps_that_the_installed_deepspeed_collects_are_read(tmp_path: Path) -> None:
    model = torch.nn.ModuleDict({"proj": LinearLayer(torch.nn.Linear(3, 2, bias=False))})
    info = collect_autotp_universal_checkpoint_info(model)
    maps = read_checkpoint_maps(saved(tmp_path, {"universal_checkpoint_info": info}))
    assert maps == {r"^proj\.weight$": builders.contiguous_split_map((2, 3), [2], 0)}


BAD_STATES: dict[str, tuple[dict[str, Any], str]] = {
    "no info": (
        {"module": {}},
        "the checkpoint lacks the key 'universal_checkpoint_info'; it has ['module']",
    ),
    "no maps": (
        {"universal_checkpoint_info": {}},
        "the checkpoint's universal_checkpoint_info lacks the key 'affine_map'; it has []",
    ),
    "another version": (
        {"universal_checkpoint_info": {"affine_map": {"version": 2, "params": {}}}},
        "envelope.version is 2; the only known version is 1",
    ),
}


@pytest.mark.parametrize("name", BAD_STATES)
def test_a_checkpoint_without_maps_is_refused_by_its_key(name: str, tmp_path: Path) -> None:
    state, message = BAD_STATES[name]
    with pytest.raises(InvalidMapError, match=f"^{re.escape(message)}$"):
        read_checkpoint_maps(saved(tmp_path, state))


def test_a_checkpoint_is_read_without_running_what_it_holds(tmp_path: Path) -> None:
    path = saved(tmp_path, {"universal_checkpoint_info": {"affine_map": Path("any object")}})
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        read_checkpoint_maps(path)


FINDINGS = (ROOT / "docs/findings.md").read_text()
SNIPPETS = {
    section.partition("\n")[0]: re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for section in re.split(r"^### ", FINDINGS, flags=re.MULTILINE)[1:]
}


@pytest.mark.parametrize("heading", SNIPPETS)
def test_deepspeed_does_what_the_finding_shows(heading: str) -> None:
    (snippet,) = SNIPPETS[heading]
    assert "pytest_affine" not in snippet
    exec(snippet, {})


def test_every_requirement_has_the_outcome_that_the_findings_give_it(
    pytester: pytest.Pytester,
) -> None:
    result = pytester.runpytest_subprocess(
        "--affine-certify=deepspeed", "--affine-ranks=1", "-k", "MAP- or PLAN-"
    )
    profile = (row.id for row in REQUIREMENTS.values() if row.profile == "affine")
    judged = {id_ for id_ in profile if id_.startswith(("MAP-", "PLAN-"))}
    seen = {row[0]: row[1:] for row in map(summary_row, result.outlines) if row[0] in judged}
    assert set(seen) == judged
    told = re.findall(r"^\| (\S+) \| (.+?) \| (\d+) \| (.+?) \|$", FINDINGS, re.MULTILINE)
    claimed = {id_: row for id_, row in seen.items() if row[0] != "not claimed"}
    assert {id_: tuple(row) for id_, *row in told} == claimed
    violated = FINDINGS.partition("## Violated")[2].partition("\n## ")[0]
    assert set(re.findall(r"^### ([A-Z-]+):", violated, re.MULTILINE)) == {
        id_ for id_, row in seen.items() if row[0] == "violated"
    }


def summary_row(line: str) -> tuple[str, ...]:
    """Requirement, outcome, cases and shares of a line of the summary, drawn inputs left out."""
    cells = re.split(r"\s{2,}", line)
    if len(cells) != 5:
        return ("",)
    id_, outcome, num_cases, _, shares = cells
    return id_.removesuffix(" (should)"), outcome, num_cases, re.sub(r", \d+ drawn.*", "", shares)
