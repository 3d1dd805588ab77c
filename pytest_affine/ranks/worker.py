"""The rank's side: a process that runs one call after another and answers each.

A call is three byte strings: context, function, arguments. An answer is three: a pickled pair, the
failure or None and the time it happened; the pickled value, or of a failed call the exception; and,
pickled, what the call left behind in a member of a group.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import os
import pickle
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, TextIO

from pytest_affine.ranks.channel import Channel, Message
from pytest_affine.ranks.failures import Kind, RankError, describe, text_of, type_name
from pytest_affine.ranks.meeting import interface_of
from pytest_affine.ranks.page import page_path
from pytest_affine.ranks.pickling import dumps

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import Store

    from pytest_affine.ranks.backends import Backend
    from pytest_affine.ranks.watch import Watch

_FOREVER = timedelta(days=1)  # the deadlines are the controller's
_environment: dict[str, str] | None = None
_own_variables: dict[str, str] = {}
_rank: int | None = None
_device: torch.device | None = None
_device_id: int | None = None
_watch: Watch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The controller's surroundings, in which a call runs.

    `environment` is left out where the rank has it already, or has one of its own.
    """

    sys_path: list[str]
    folder: str | None
    seed: int
    environment: dict[str, str] | None = None


def current_rank() -> int:
    """The number of this rank; any rank calls it. RuntimeError outside ranks."""
    if _rank is None:
        raise RuntimeError("current_rank() was called outside ranks: RankPool.run() makes ranks")
    return _rank


def device() -> torch.device:
    """The device of this rank; any rank calls it. RuntimeError outside ranks."""
    if _device is None:
        raise RuntimeError("device() was called outside ranks: RankPool.run() makes ranks")
    return _device


def device_id() -> int | None:
    """The id that this rank leases, None without one; any rank calls it. RuntimeError elsewhere."""
    if _rank is None:
        raise RuntimeError("device_id() was called outside ranks: RankPool.run() makes ranks")
    return _device_id


def preload(modules: Sequence[str]) -> None:
    """Import in the fork server what every rank needs, and these modules."""
    from pytest_affine.ranks import watch  # noqa: F401

    for name in modules:
        importlib.import_module(name)
    _seed_generators(0)


def join(
    rank: int,
    num_ranks: int,
    backend: Backend,
    open_store: Callable[[int], Store],
    *,
    folder: Path,
    device_index: int | None,
    address: str | None,
) -> None:
    """Become a rank: bind the device, set up the default process group. Every rank calls it.

    Args:
        rank: its number.
        num_ranks: size of the group.
        backend: its backend.
        open_store: opens the store in which the ranks meet, given their number.
        folder: where the controller looks for the rank's page.
        device_index: which device it has, and binds where the backend needs one.
        address: IPv4 address where ranks on other nodes reach it; None if there are none.
    """
    global _rank, _device, _device_id, _watch
    import torch
    import torch.distributed as dist

    from pytest_affine.ranks import tap
    from pytest_affine.ranks.watch import Watch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1").partition(",")[0]))
    # On one node loopback, whatever the host is called; else what the user says, if anything.
    interface = interface_of(address)
    if interface and (address is None or "GLOO_SOCKET_IFNAME" not in os.environ):
        _own_variables["GLOO_SOCKET_IFNAME"] = os.environ["GLOO_SOCKET_IFNAME"] = interface
    _rank, _device_id, _device = rank, device_index, backend.bind(device_index)
    dist.init_process_group(
        backend.name,
        store=open_store(num_ranks),
        rank=rank,
        world_size=num_ranks,
        timeout=_FOREVER,
        device_id=_device if backend.needs_devices else None,
    )
    tap.install(page_path(folder))
    _watch = Watch()


def main(channel_descriptor: int, stack: int) -> NoReturn:
    """Answer calls until the controller lets go."""
    channel = Channel(socket.socket(fileno=channel_descriptor), blocking=True)
    faulthandler.enable(stack)
    faulthandler.register(signal.SIGUSR1, stack)
    streams = _unbuffered(1), _unbuffered(2)
    pid = os.getpid()
    while (call := channel.receive()) is not None:
        for descriptor in (1, stack):
            os.ftruncate(descriptor, 0)
        sys.stdout, sys.stderr = streams
        if _watch is not None:
            _watch.begin()
        answer = _answer(*call)
        if os.getpid() != pid:
            break  # a fork that the function made and let return
        channel.send((*answer, pickle.dumps(_watch and _watch.leftovers())))
    os._exit(0)


def _unbuffered(descriptor: int) -> TextIO:
    """A text stream that keeps nothing back: what a rank has printed is there when it dies."""
    raw = open(descriptor, "wb", buffering=0, closefd=False)  # noqa: SIM115 - as long as the rank
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def _answer(context: bytes, function: bytes, arguments: bytes) -> Message:
    _enter(pickle.loads(context))
    try:
        work = pickle.loads(function)
        args, kwargs = pickle.loads(arguments)
    except Exception as error:
        return _failed(error, "unpicklable", f"the call cannot be unpickled: {describe(error)}")
    try:
        value = work(*args, **kwargs)
    except SystemExit as error:
        return _failed(error, "exit", f"exited with status {_status(error)}")
    except BaseException as error:
        return _failed(error, "exception", text_of(error))
    try:
        return _reply(None, dumps(value))
    except Exception as error:
        what = f"the result, of type {type_name(type(value))},"
        return _failed(error, "unpicklable", f"{what} cannot be pickled: {describe(error)}")


def _enter(context: Context) -> None:
    sys.path[:] = context.sys_path
    if context.folder is not None:
        with suppress(FileNotFoundError):
            os.chdir(context.folder)
    _restore_environment(context.environment)
    _seed_generators(context.seed + (_rank or 0))


def _restore_environment(new: dict[str, str] | None) -> None:
    """Undo what the calls before have done to the environment."""
    global _environment
    if new is not None or _environment is None:
        _environment = dict(os.environ) if new is None else new
    wanted = _environment | _own_variables
    if dict(os.environ) != wanted:
        os.environ.clear()
        os.environ.update(wanted)


def _seed_generators(seed: int) -> None:
    random.seed(seed)
    if "numpy" in sys.modules:
        import numpy.random

        numpy.random.seed(seed % 2**32)
    if "torch" in sys.modules:
        import torch

        # Not torch.manual_seed: it formats a stack trace for each kind of device not yet in use.
        torch.default_generator.manual_seed(seed)
        if _device is not None and _device.type != "cpu":
            torch.get_device_module(_device).manual_seed(seed)


def _failed(error: BaseException, kind: Kind, message: str) -> Message:
    error.__traceback__ = _shown(error.__traceback__)
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    failure = RankError(
        kind=kind,
        message=message,
        type_name=type_name(type(error)),
        traceback="".join(traceback.format_exception(error)),
        innermost_file=files[-1] if files else "",
    )
    try:
        return _reply(failure, dumps(error))
    except Exception:
        return _reply(failure, b"")


def _shown(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without `_answer`, and without frames that ask pytest to hide them."""
    frames = []
    while trace is not None and (trace := trace.tb_next) is not None:
        if "__tracebackhide__" not in trace.tb_frame.f_locals:
            frames.append(trace)
    for frame, following in zip(frames, [*frames[1:], None], strict=False):
        frame.tb_next = following
    return frames[0] if frames else None


def _reply(failure: RankError | None, value: bytes) -> Message:
    return pickle.dumps((failure, time.monotonic())), value


def _status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1
