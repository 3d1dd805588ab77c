"""What the gate prints: the table of mutants, its verdict, and a mutant's failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.mutants.gate import Bucket, GateResult, MutantResult
from pytest_affine.mutants.trial import Trial
from pytest_affine.summary import table

__all__ = ["gate_lines", "story"]

HEAD = ("mutant", "requirement", "bucket", "seconds", "killed by")


def gate_lines(gate: GateResult, seconds: Mapping[str, float]) -> Iterator[str]:
    """The table of mutants that ran, how many are in each bucket, and the verdict, as lines."""
    ran = [result for result in gate.mutants if result.bucket is not Bucket.NOT_RUN]
    if ran:
        yield from table([HEAD, *(_row(result, seconds.get(result.id, 0.0)) for result in ran)])
        yield ""
    counts = ", ".join(f"{count} {bucket.value}" for bucket, count in gate.counts.items())
    yield f"gate: {gate.verdict.upper()}"
    yield f"  of {len(gate.mutants)} mutants: {counts or 'none'}"
    yield from (f"  {problem}" for problem in gate.problems)
    if gate.verdict != "failed" and gate.requirements_without_mutant:
        yield f"  no mutant applies to {', '.join(gate.requirements_without_mutant)}"


def _row(result: MutantResult, seconds: float) -> tuple[str, ...]:
    killer = f"{result.killed_by} {result.case}" if result.killed_by else f"- {result.reason}"
    return result.id, result.requirement, result.bucket.value, f"{seconds:.1f}", killer


def story(trial: Trial, rerun: str) -> str:
    """A mutant that was not noticed as it must be: its fault, what ran, and how to run it again."""
    result = trial.result
    origin = f" ({result.origin})" * bool(result.origin)
    lines = [
        f"mutant {result.id} {result.bucket.value}: {result.reason}",
        f"  {result.sentence}{origin}",
        "must be noticed by",
        f"  {result.requirement}: {REQUIREMENTS[result.requirement].sentence}",
        f"ran {trial.num_inputs} inputs of {len(trial.requirements)} requirements",
    ]
    if result.killed_by:
        lines.append(f"noticed by {result.killed_by} in {result.case}")
    if trial.text:
        lines += ["", trial.text.rstrip()]
    return "\n".join([*lines, "", "rerun:", f"  {rerun}"])
