"""Functions in fresh interpreters."""

import os
import sys
import time
from pathlib import Path

import pytest

from pytest_affine.ranks import RankFailure, spawn


def test_interpreters_differ_by_their_hash_seed_and_by_nothing_else() -> None:
    hashes = [spawn(hash, "a text", hash_seed=seed) for seed in (0, 1, 0)]
    assert hashes[0] == hashes[2]
    assert hashes[0] != hashes[1]


def test_functions_there_see_the_hash_seed_and_our_surroundings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SURROUNDING", "ours")
    surroundings = spawn(
        lambda: (os.environ["PYTHONHASHSEED"], os.environ["SURROUNDING"], os.getcwd(), sys.path),
        hash_seed=7,
    )
    assert surroundings == ("7", "ours", str(tmp_path), sys.path)


def test_only_what_the_function_needs_is_imported() -> None:
    assert spawn(lambda: "torch" in sys.modules, hash_seed=0) is False


def test_a_failure_names_the_interpreter() -> None:
    with pytest.raises(RankFailure, match=r"^interpreter with PYTHONHASHSEED=1: ValueError: math"):
        spawn(lambda: __import__("math").sqrt(-1), hash_seed=1)


def test_a_deadline_holds_and_shows_the_stack() -> None:
    def doze() -> None:
        time.sleep(60)

    with pytest.raises(RankFailure, match=r"(?s)^interpreter .* no answer within 2.0 s.* in doze"):
        spawn(doze, hash_seed=0, deadline=2.0)


def test_an_exit_is_told() -> None:
    with pytest.raises(RankFailure, match="PYTHONHASHSEED=0: exited with status 4"):
        spawn(os._exit, 4, hash_seed=0)


@pytest.mark.parametrize("seed", [-2, 2**32])
def test_hash_seeds_that_python_does_not_take_are_refused(seed: int) -> None:
    with pytest.raises(ValueError, match=f"hash_seed must be from 0 to 4294967295, not {seed}"):
        spawn(abs, -1, hash_seed=seed)
