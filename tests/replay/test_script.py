"""Scripts of calls, which are run."""

import subprocess
import sys

from pytest_affine.replay.recording import Call
from pytest_affine.replay.script import script_of


def call(*lines, shown=None, tensors=(), modules=()):
    return Call(lines=lines, shown=shown, tensors=tensors, modules=modules)


def output_of(script, folder):
    path = folder / "script.py"
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return sorted(line for line in done.stdout.splitlines() if "_1 " in line or "_2 " in line)


def test_calls_of_one_rank_are_a_plain_script_that_shows_results_and_tensors(tmp_path):
    calls = [
        call("value_1 = math.sqrt(0.25)", modules=("math",)),
        call(
            "tensor_1 = torch.zeros(2)",
            "value_2 = tensor_1.add_(value_1)",
            shown="value_2",
            tensors=("tensor_1",),
        ),
    ]
    script = script_of("too little", [calls, []], "gloo")
    assert script.startswith('"""too little\n"""\n\nimport math\nimport torch\n\nvalue_1 =')
    assert output_of(script, tmp_path) == [
        "tensor_1 tensor([0.5000, 0.5000])",
        "value_2 tensor([0.5000, 0.5000])",
    ]


def test_calls_of_several_ranks_run_in_one_process_group(tmp_path):
    reduced = (
        "tensor_1 = torch.ones(1)",
        "value_1 = torch.distributed.all_reduce(tensor_1, group=torch.distributed.group.WORLD)",
    )
    calls = [[call(*reduced, tensors=("tensor_1",))], [call(*reduced)]]
    script = script_of("ranks", calls, "gloo")
    assert output_of(script, tmp_path) == ["rank 0: tensor_1 tensor([2.])"]


def test_a_rank_without_calls_is_there_all_the_same(tmp_path):
    grouped = "value_1 = torch.distributed.get_world_size(torch.distributed.group.WORLD)"
    script = script_of("ranks", [[call(grouped, shown="value_1")], []], "gloo")
    assert output_of(script, tmp_path) == ["rank 0: value_1 2"]


def test_no_text_ends_the_docstring_early(tmp_path):
    script = script_of('a """ and a \\', [[call("value_1 = 1", shown="value_1")]], "gloo")
    assert output_of(script, tmp_path) == ["value_1 1"]


def test_without_calls_there_is_no_script():
    assert script_of("story", [[], []], "gloo") is None
