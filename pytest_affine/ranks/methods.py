"""Replacements for the methods of ProcessGroup and Work, which record what they are called with."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import Any

import torch
import torch.distributed as dist

from pytest_affine.ranks.record import Call, Record

Method = Callable[..., Any]

_MESSAGES = {
    "send": ("tensors", "dstRank", "tag"),
    "recv": ("tensors", "srcRank", "tag"),
    "recv_anysource": ("arg0", "arg1"),
}

_BOTH, _PAIR, _NONE = range(3)
"""What a collective takes: tensors that go in and out, outputs and then inputs, or none."""

_COLLECTIVES = {
    "allreduce": ("all_reduce", _BOTH),
    "allreduce_coalesced": ("all_reduce_coalesced", _BOTH),
    "broadcast": ("broadcast", _BOTH),
    "reduce": ("reduce", _BOTH),
    "gather": ("gather", _PAIR),
    "scatter": ("scatter", _PAIR),
    "allgather": ("all_gather", _PAIR),
    "allgather_coalesced": ("all_gather_coalesced", _PAIR),
    "_allgather_base": ("all_gather_into_tensor", _PAIR),
    "all_gather_single": ("all_gather_into_tensor", _PAIR),
    "allgather_into_tensor_coalesced": ("all_gather_into_tensor_coalesced", _PAIR),
    "all_gather_single_coalesced": ("all_gather_into_tensor_coalesced", _PAIR),
    "reduce_scatter": ("reduce_scatter", _PAIR),
    "_reduce_scatter_base": ("reduce_scatter_tensor", _PAIR),
    "reduce_scatter_single": ("reduce_scatter_tensor", _PAIR),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter_tensor_coalesced", _PAIR),
    "reduce_scatter_single_coalesced": ("reduce_scatter_tensor_coalesced", _PAIR),
    "alltoall": ("all_to_all", _PAIR),
    "alltoall_base": ("all_to_all_single", _PAIR),
    "all_to_all_single": ("all_to_all_single", _PAIR),
    "barrier": ("barrier", _NONE),
    "monitored_barrier": ("monitored_barrier", _NONE),
}
_TENSORS = ("output_tensors", "input_tensors")
_ROOTED = {"broadcast": 1, "reduce": 1, "gather": 2, "scatter": 2}  # where the options stand


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: its name, its global ranks, and which of them, by position, we are."""

    name: str
    ranks: tuple[int, ...]
    position: int


class Groups:
    """The groups seen so far; none is kept alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Group]] = {}

    def of(self, group: Any) -> Group:
        """What is known of a group."""
        known = self._known.get(id(group))
        return self._learn(group) if known is None else known[1]

    def _learn(self, group: Any) -> Group:
        key = id(group)
        ranks = tuple(dist.get_process_group_ranks(group))
        value = Group(group.group_name, ranks, group.rank())
        self._known[key] = weakref.ref(group, lambda _: self._known.pop(key, None)), value
        return value


class MethodTap:
    """Makes the replacements, which write into a record."""

    def __init__(self, record: Record, groups: Groups) -> None:
        self._record = record
        self._groups = groups
        self._batches: dict[int, list[Call]] = {}

    def replacements(self) -> dict[tuple[type, str], Method]:
        """For each class and name of a method that this version of torch has, what replaces it."""
        group, work = dist.ProcessGroup, dist.Work
        made: dict[tuple[type, str], Method] = {}
        for name in (*_MESSAGES, *_COLLECTIVES):
            if (original := getattr(group, name, None)) is not None:
                enter = self._entering(name)
                made[group, name] = self._tapped(original, enter)
        for name, make in (("_start_coalescing", self._start), ("_end_coalescing", self._end)):
            made[group, name] = make(getattr(group, name))
        made[work, "wait"] = self._wait(work.wait)
        made[work, "is_completed"] = self._is_completed(work.is_completed)
        made[work, "get_future"] = self._get_future(work.get_future)
        return made

    def _entering(self, name: str) -> Callable[[Group, Sequence[Any], Mapping[str, Any]], Call]:
        enter = self._enter_message if name in _MESSAGES else self._enter_collective
        return partial(enter, name)

    def _enter_message(
        self, name: str, group: Group, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Call:
        given, *peers, tag = _arguments(_MESSAGES[name], args, kwargs)
        peer = group.ranks[peers[0]] if peers else None
        kind = "send" if name == "send" else "recv"
        size, dtype = measured(given)
        return self._record.enter(
            kind,
            group.name,
            group.ranks,
            peer,
            size,
            dtype,
            tag,
            size if kind == "send" else 0,
            size if kind == "recv" else 0,
        )

    def _enter_collective(
        self, name: str, group: Group, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Call:
        kind, form = _COLLECTIVES[name]
        sent, received, dtype = _amounts(form, args, kwargs)
        peer = None
        if kind in _ROOTED:
            root = _root(args[_ROOTED[kind] :], kwargs)
            peer = group.ranks[root]
            sent, received = at_root(kind, root == group.position, sent, received)
        part = min(filter(None, (sent, received)), default=0)
        call = self._record.enter(
            kind, group.name, group.ranks, peer, part, dtype, 0, sent, received
        )
        if kind.startswith("all_to_all"):
            inputs = _arguments(_TENSORS, args, kwargs)[1]
            splits = args[3] if kind.endswith("single") and len(args) > 3 else ()
            call.sent_parts = parts(inputs, splits, len(group.ranks))
        return call

    def _tapped(self, original: Method, enter: Callable[..., Call]) -> Method:
        record = self._record

        @wraps(original)
        def method(group: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            try:
                call = enter(self._groups.of(group), args, kwargs)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                return original(group, *args, **kwargs)  # which says what is wrong with them
            try:
                work = original(group, *args, **kwargs)
            except BaseException:
                record.refuse(call)
                raise
            record.leave(call)
            record.started(call)
            if (batch := self._batches.get(id(group))) is not None:
                batch.append(call)
            else:
                self._follow(work, [call])
            return work

        return method

    def _start(self, original: Method) -> Method:
        @wraps(original)
        def start_coalescing(group: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            value = original(group, *args, **kwargs)
            self._batches[id(group)] = []
            return value

        return start_coalescing

    def _end(self, original: Method) -> Method:
        @wraps(original)
        def end_coalescing(group: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            batch = self._batches.pop(id(group), [])
            work = original(group, *args, **kwargs)
            self._follow(work, batch)
            return work

        return end_coalescing

    def _follow(self, work: Any, calls: Sequence[Call]) -> None:
        if work is not None:
            self._record.follow(work, calls)
        else:
            for call in calls:
                self._record.end(call)

    def _wait(self, original: Method) -> Method:
        record = self._record

        @wraps(original)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            calls = record.calls_of(work)
            if not calls:
                return original(work, *args, **kwargs)
            latest = calls[-1]
            record.resume(latest)
            try:
                value = original(work, *args, **kwargs)
            except BaseException:
                record.leave(latest, raised=True)
                raise
            record.leave(latest)
            if latest.kind == "recv" and latest.peer is None:
                record.found_peer(latest, latest.facts[2][work._source_rank()])
            record.work_ended(work)
            return value

        return wait

    def _is_completed(self, original: Method) -> Method:
        record = self._record

        @wraps(original)
        def is_completed(work: Any) -> Any:
            __tracebackhide__ = True
            value = original(work)
            if value:
                record.work_ended(work)
            return value

        return is_completed

    def _get_future(self, original: Method) -> Method:
        record = self._record

        @wraps(original)
        def get_future(work: Any) -> Any:
            __tracebackhide__ = True
            future = original(work)
            record.promise(work, future)
            return future

        return get_future


def measured(value: Any) -> tuple[int, str]:
    """The bytes of all tensors in a tensor or nested lists of them, and their data type."""
    found = tensors_of(value)
    if not found:
        return 0, ""
    return sum([each.nbytes for each in found]), _dtype_name(found[0].dtype)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """A tensor, or nested lists of tensors, as one list."""
    if isinstance(value, torch.Tensor):
        return [value]
    found: list[torch.Tensor] = []
    for each in value:
        if isinstance(each, torch.Tensor):
            found.append(each)
        else:
            found += tensors_of(each)
    return found


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    """`float32` for torch.float32."""
    return str(dtype).rpartition(".")[2]


def at_root(kind: str, is_root: bool, sent: int, received: int) -> tuple[int, int]:
    """What a rank sends and receives where only the root receives, or only it sends."""
    if kind == "broadcast":
        return (sent, 0) if is_root else (0, received)
    if kind == "reduce" and not is_root:
        return sent, 0
    return sent, received


def _amounts(form: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, int, str]:
    if form == _NONE:
        return 0, 0, ""
    if form == _BOTH:
        size, dtype = measured(args[0] if args else kwargs["tensors"])
        return size, size, dtype
    outputs, inputs = _arguments(_TENSORS, args, kwargs)
    (received, dtype), (sent, dtype_sent) = measured(outputs), measured(inputs)
    return sent, received, dtype or dtype_sent


def parts(given: Any, splits: Sequence[int], num_ranks: int) -> tuple[int, ...]:
    """The bytes that an all-to-all is given for each rank: one tensor each, or rows of one."""
    if not isinstance(given, torch.Tensor):
        return tuple(each.nbytes for each in given)
    if not splits:
        return (given.nbytes // num_ranks,) * num_ranks
    row_bytes = given.nbytes // max(given.shape[0], 1)
    return tuple(rows * row_bytes for rows in splits)


def _arguments(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    return [given[name] for name in names]


def _root(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    given = args[0] if args else kwargs.get("opts", kwargs.get("root", 0))
    root: int = getattr(given, "rootRank", given)
    return root
