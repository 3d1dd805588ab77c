"""A script of the calls that an adapter made, for who has torch and that package alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_affine.replay.recording import Call

__all__ = ["script_of"]

WORLD = "torch.distributed.group.WORLD"


def script_of(story: str, calls_by_rank: Sequence[Sequence[Call]], backend: str) -> str | None:
    """Return the script, or None where no call was seen.

    It shows each result, and what tensors hold in the end.

    Args:
        story: what was expected and what was seen; the script's docstring.
        calls_by_rank: the calls of each rank, in order.
        backend: of the process group, where the calls need one.
    """
    calls = [call for own in calls_by_rank for call in own]
    if not calls:
        return None
    modules = {"torch", *(module for call in calls for module in call.modules)}
    is_alone = not any(calls_by_rank[1:]) and not _needs_group(calls)
    if is_alone:
        body = [*_lines(calls_by_rank[0], "")]
    else:
        modules |= {"torch.distributed", "torch.multiprocessing", "tempfile"}
        body = [*_together(calls_by_rank, backend)]
    imports = [f"import {module}" for module in sorted(modules)]
    return "\n".join([*_docstring(story), "", *imports, "", *body, ""])


def _docstring(story: str) -> list[str]:
    text = story.strip().replace("\\", "\\\\").replace('"""', "'''")
    return [f'"""{text}', '"""']


def _needs_group(calls: Iterable[Call]) -> bool:
    return any(WORLD in line for call in calls for line in call.lines)


def _lines(calls: Sequence[Call], prefix: str) -> list[str]:
    lines: list[str] = []
    for call in calls:
        lines += call.lines
        if call.shown is not None:
            lines.append(f"print({prefix + call.shown!r}, {call.shown})")
    names = [name for call in calls for name in call.tensors]
    return lines + [f"print({prefix + name!r}, {name})" for name in names]


def _together(calls_by_rank: Sequence[Sequence[Call]], backend: str) -> Iterable[str]:
    """A function for each rank, and what runs them in one process group."""
    for rank, calls in enumerate(calls_by_rank):
        body = [*_lines(calls, f"rank {rank}: "), "return"]
        yield from (f"def rank_{rank}():", *(f"    {line}" for line in body), "", "")
    functions = ", ".join(f"rank_{rank}" for rank in range(len(calls_by_rank)))
    yield from (
        "def main(rank, folder):",
        "    torch.distributed.init_process_group(",
        f'        "{backend}",',
        '        init_method=f"file://{folder}/store",',
        "        rank=rank,",
        f"        world_size={len(calls_by_rank)},",
        "    )",
        f"    [{functions}][rank]()",
        "    torch.distributed.destroy_process_group()",
        "",
        "",
        'if __name__ == "__main__":',
        "    with tempfile.TemporaryDirectory() as folder:",
        f"        torch.multiprocessing.spawn(main, (folder,), nprocs={len(calls_by_rank)})",
    )
