"""Assertions for tests; all failures have one shape: rules, problems, a drawing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import TransferPlan
from pytest_affine.truth.drawing import draw_shard, is_drawn
from pytest_affine.truth.map_rules import map_problems
from pytest_affine.truth.plan_rules import PLAN_RULES, plan_problems
from pytest_affine.truth.problems import Problem

__all__ = ["assert_exact", "assert_exact_tiling", "assert_valid"]

MAX_SHOWN = 8


def assert_exact(
    plan: TransferPlan,
    source: ParamAffineMap,
    target: ParamAffineMap,
    *,
    rules: Collection[str] = PLAN_RULES,
) -> None:
    """Fail unless the plan fills every target shard from the right source elements.

    Args:
        plan: the plan.
        source: map of the shards that are read.
        target: map of the shards that are written.
        rules: fail for breaches of these only.

    Raises:
        AssertionError: with the rules, the problems, and a drawing of the first affected shard;
            also for what is too large to enumerate and not made of boxes, so that nothing passes
            that could not be judged.
        ValueError: a rule that is not judged here.
    """
    __tracebackhide__ = True
    if unknown := set(rules) - set(PLAN_RULES):
        raise ValueError(f"rules judged here are {PLAN_RULES}, not {sorted(unknown)}")
    problems = _judged("the plan", lambda: plan_problems(plan, source, target))
    _fail_on("the plan", [problem for problem in problems if problem.rule in rules], target)


def assert_exact_tiling(plan: TransferPlan, source: ParamAffineMap, target: ParamAffineMap) -> None:
    """Fail unless the plan writes every target element once, within all shards, from anywhere.

    Raises as `assert_exact` does.
    """
    __tracebackhide__ = True
    assert_exact(plan, source, target, rules=("PLAN-TILE", "PLAN-BOUNDS"))


def assert_valid(map_: ParamAffineMap) -> None:
    """Fail unless the map keeps MAP-COVER, MAP-TILE, MAP-HOLD and MAP-SCALE.

    Raises as `assert_exact` does.
    """
    __tracebackhide__ = True
    _fail_on("the map", _judged("the map", lambda: map_problems(map_)), map_)


def _judged(what: str, judge: Callable[[], Sequence[Problem]]) -> Sequence[Problem]:
    __tracebackhide__ = True
    try:
        return judge()
    except UnsupportedLayoutError as error:
        raise AssertionError(f"{what} can not be judged: {error}") from None


def _fail_on(what: str, problems: Sequence[Problem], map_: ParamAffineMap) -> None:
    __tracebackhide__ = True
    if not problems:
        return
    rules = ", ".join(sorted({problem.rule for problem in problems}))
    lines = [f"{what} breaks {rules}:", *(f"  {problem}" for problem in problems[:MAX_SHOWN])]
    if len(problems) > MAX_SHOWN:
        lines.append(f"  and {len(problems) - MAX_SHOWN} more")
    drawn = next((problem for problem in problems if is_drawn(problem)), None)
    if drawn:
        lines.append(draw_shard(map_, drawn.location, problems))
    raise AssertionError("\n".join(lines))
