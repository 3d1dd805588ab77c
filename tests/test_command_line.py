"""`python -m pytest_affine`: what it prints, and what it refuses in which words."""

import io
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pytest_affine.__main__ import main
from pytest_affine.commands.progress import Bar
from pytest_affine.models import model_names
from pytest_affine.plans import PlanBudget
from pytest_affine.reference.replicas import plan_transfers

SMALL = ["plan", "--layout", "llama-3-8b", "--source", "tp2", "--target", "tp1"]


def test_plan_prints_a_row_per_kind_of_parameter_and_totals(capsys):
    assert main(SMALL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.split(r"  +", lines[0]) == [
        "parameter",
        "shape",
        "source shards",
        "target shards",
        "segments",
        "moved",
    ]
    # 32 times 1,024 x 4,096 elements of 2 bytes, each half of them in one segment.
    assert re.split(r"  +", lines[3]) == [
        "model.layers.*.self_attn.k_proj.weight",
        "x32",
        "[1024, 4096]",
        "2 of [512, 4096]",
        "1 of [1024, 4096]",
        "64",
        "268.4 MB",
    ]
    assert len({len(line) for line in lines[:13]}) == 1
    assert lines[13] == ""
    # 65 norms are copied whole from rank 0, half of everything else too. A message holds 1,024 rows
    # of 4,096: embedding and head take 63, a layer 2 for q, 1 for k and v, 2 for o, 7 for gate, 7
    # for up and 8 for down, of whose 4,096 rows of 7,168 a message holds 585.
    assert lines[14:-1] == [
        "llama-3-8b, tp2 to tp1: 291 parameters, 8,030,261,248 elements",
        "517 segments move 16.1 GB (16,060,522,496 bytes), 8.0 GB of it within a process",
        "2 processes, where rank r is process r on both sides, exchange 990 messages in 990 rounds",
        "process 1 sends most, 8.0 GB",
        "process 0 receives most, 8.0 GB",
        "path local: 8.0 GB in 0 messages",
        "path remote: 8.0 GB in 990 messages",
    ]
    assert re.fullmatch(r"maps took \d+\.\d s, plans \d+\.\d s, analysis \d+\.\d s", lines[-1])


def test_plan_prints_the_same_as_json(capsys):
    assert main([*SMALL, "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert (table["model"], table["source"], table["target"]) == ("llama-3-8b", "tp2", "tp1")
    assert table["moved_bytes"] == 2 * 8_030_261_248
    assert table["local_bytes"] == 8_030_261_248 + 65 * 4096
    assert table["segments"] == 517
    assert (table["processes"], table["messages"], table["rounds"]) == (2, 990, 990)
    sent = 8_030_261_248 - 65 * 4096
    assert table["busiest"] == {"sends": [1, sent], "receives": [0, sent]}
    assert table["paths"] == {"local": [table["local_bytes"], 0], "remote": [sent, 990]}
    assert table["rows"][-1] == {
        "parameter": "lm_head.weight",
        "count": 1,
        "shape": [128256, 4096],
        "source_shards": 2,
        "source_shape": [64128, 4096],
        "target_shards": 1,
        "target_shape": [128256, 4096],
        "segments": 2,
        "moved_bytes": 2 * 128256 * 4096,
        "local_bytes": 128256 * 4096,
    }
    assert min(table[f"{what}_seconds"] for what in ("describe", "plan", "analyze")) > 0


def test_the_report_is_written_with_what_was_asked_for(tmp_path, capsys):
    path = tmp_path / "report.json"
    options = ["--apart", "--per-node", "2", "--budget", str(2**20), "--report", str(path)]
    assert main([*SMALL, *options]) == 0
    report = json.loads(path.read_text())
    assert list(report["processes"]) == ["0", "1", "2"]
    # Both halves of everything go to process 2, on another node than 0 and 1. These take turns with
    # the 65 norms, each of 8,192 bytes.
    sent = {sender: receivers["2"][0] for sender, receivers in report["pairs"].items()}
    half = 8_030_261_248 - 65 * 4096
    assert sent == {"0": half + 33 * 8192, "1": half + 32 * 8192}
    assert list(report["paths"]) == ["inter_node"]
    assert max(map(int, report["message_sizes"])) == 2**20
    printed = capsys.readouterr().out
    assert "16.1 GB (16,060,522,496 bytes), 0 B of it within a process" in printed
    assert "3 processes, where target rank r is process 2 + r, exchange" in printed
    assert "process 2 receives most, 16.1 GB" in printed


def test_nothing_stays_in_a_process_where_sides_are_apart(capsys):
    assert main([*SMALL, "--apart", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert {row["local_bytes"] for row in [table, *table["rows"]]} == {0}


def test_a_report_that_can_not_be_written_says_so(tmp_path, capsys):
    path = tmp_path / "nowhere" / "report.json"
    error = refused([*SMALL, "--report", str(path)], capsys)
    assert error == f"error: --report {path}: No such file or directory\n"


def test_a_budget_and_a_node_of_no_use_are_refused(capsys):
    assert "bytes_per_peer must be 1 or more, got 0" in refused([*SMALL, "--budget", "0"], capsys)
    assert refused([*SMALL, "--per-node", "0"], capsys) == (
        "error: --per-node must be 1 or more, got 0\n"
    )


def test_bytes_are_those_of_each_parameters_dtype(capsys):
    arguments = ["plan", "--layout", "deepseek-v3", "--source", "dp1", "--target", "dp1", "--json"]
    assert main(arguments) == 0
    rows = {row["parameter"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["model.layers.*.mlp.gate.e_score_correction_bias"]["moved_bytes"] == 4 * 58 * 256
    assert rows["model.norm.weight"]["moved_bytes"] == 2 * 7168


def test_parameters_that_are_cut_otherwise_have_rows_of_their_own(capsys):
    # Each of the two stages has its own ranks, but as many and as large shards.
    arguments = ["plan", "--layout", "llama-3-8b", "--source", "zero2", "--target", "pp2", "--json"]
    assert main(arguments) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    norms = [row for row in rows if row["parameter"] == "model.layers.*.input_layernorm.weight"]
    assert [(row["count"], row["source_shape"]) for row in norms] == [(32, [4096])]
    q = [row for row in rows if row["parameter"] == "model.layers.*.mlp.up_proj.weight"]
    assert sum(row["count"] for row in q) == 32
    assert all(row["target_shards"] == 1 for row in rows)


def test_the_whole_model_is_one_batch_with_rank_r_on_process_r(monkeypatch, capsys):
    batches = []

    def recorded(pairs, **options):
        batches.append((pairs, options))
        return plan_transfers(pairs, **options)

    monkeypatch.setattr("pytest_affine.commands.model_batch.plan_transfers", recorded)
    arguments = ["--layout", "deepseek-v3", "--source", "dp2", "--target", "pp2,ep1"]
    assert main(["plan", *arguments]) == 0
    ((pairs, options),) = batches
    assert len(pairs) == 1025
    ranks = ((0, 0), (1, 1))
    assert (options["endpoints"].source, options["endpoints"].target) == (ranks, ranks)
    assert options["element_size"]["model.norm.weight"] == 2
    bias = "model.layers.3.mlp.gate.e_score_correction_bias"
    assert options["element_size"][bias] == 4


def refused(arguments, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_an_unknown_model_is_refused_with_those_there_are(capsys):
    arguments = ["plan", "--layout", "llama", "--source", "tp2", "--target", "tp1"]
    assert refused(arguments, capsys) == (
        f"error: a model must be one of {list(model_names())}, got 'llama'\n"
    )


def test_degrees_of_no_sense_are_refused(capsys):
    arguments = ["plan", "--layout", "llama-3-8b", "--source", "tp2", "--target", "tpp"]
    assert refused(arguments, capsys).startswith("error: degrees 'tpp': ")


def test_a_limit_that_is_exceeded_says_so(capsys):
    error = refused([*SMALL, "--limit", "max_segments=1"], capsys)
    assert error.startswith("error: ")
    assert "max_segments" in error


def test_limits_are_passed_on(capsys):
    assert "max_ndim" in refused([*SMALL, "--limit", "max_ndim=1"], capsys)
    assert main([*SMALL, "--limit", "max_segments=2", "--limit", "max_ndim=2"]) == 0


def test_an_unknown_limit_is_refused(capsys):
    names = list(PlanBudget.__slots__)
    assert refused([*SMALL, "--limit", "max_time=1"], capsys) == (
        f"error: --limit must name one of {names}, got 'max_time=1'\n"
    )


def test_a_limit_is_a_number(capsys):
    assert refused([*SMALL, "--limit", "max_ndim=-1"], capsys) == (
        "error: --limit max_ndim must be an integer of 0 or more, as in max_ndim=100, "
        "got 'max_ndim=-1'\n"
    )


def test_without_a_command_the_usage_is_shown(capsys):
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == 2
    assert "usage: python -m pytest_affine" in capsys.readouterr().err


def test_help_names_models_axes_and_limits(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["plan", "--help"])
    assert exit_.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "llama-3-405b" in text
    assert "tp8,fsdp64" in text
    assert "max_plan_bytes" in text
    assert "Rank r of the source and rank r of the target are taken to be one process." in text


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "pytest_affine", "plan", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.startswith("usage: python -m pytest_affine plan")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_a_bar(monkeypatch):
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main(SMALL) == 0
    shown = sys.stderr.getvalue()
    assert "maps:   0%" in shown
    assert "regions:  50%" in shown
    assert "segments:  75%" in shown
    assert "873/1164" in shown


class FakeBar:
    """What tqdm is asked for."""

    def __init__(self, **options):
        self.options, self.done, self.closed = options, {}, False
        FakeBar.made = self

    def set_description(self, what):
        self.what = what

    def update(self, count):
        self.done[self.what] = self.done.get(self.what, 0) + count

    def close(self):
        self.closed = True


def test_the_bar_counts_maps_regions_and_segments_of_every_parameter(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=FakeBar))
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main(SMALL) == 0
    assert FakeBar.made.options == {"total": 4 * 291, "leave": False}
    assert FakeBar.made.done == {"maps": 2 * 291, "regions": 291, "segments": 291}
    assert FakeBar.made.closed


def test_the_bar_is_closed_when_planning_fails(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=FakeBar))
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main([*SMALL, "--limit", "max_segments=1"]) == 2
    assert FakeBar.made.closed


def test_elsewhere_there_is_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert main(SMALL) == 0
    assert sys.stderr.getvalue() == ""


def test_without_tqdm_there_is_no_bar(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = Bar(2)
    bar.begin("maps")
    assert list(bar.over([1, 2])) == [1, 2]
    bar.close()
    assert sys.stderr.getvalue() == ""
