"""The rank's side: a process that runs one call after another and answers each.

A call is three byte strings: context, function, arguments. An answer is two: a pickled pair, the
failure or None and the time it happened; and the pickled value, or of a failed call the exception.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import random
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from pytest_affine.ranks.channel import Channel, Message
from pytest_affine.ranks.failures import Kind, RankError, describe, text_of, type_name
from pytest_affine.ranks.pickling import dumps

if TYPE_CHECKING:
    import torch

    from pytest_affine.ranks.backends import Backend

_FOREVER = timedelta(days=1)  # the deadlines are the controller's
_rank: int | None = None
_device: torch.device | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The controller's surroundings, in which a call runs; `environment` goes with the first."""

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


def preload() -> None:
    """Import in the fork server what every rank needs."""
    import torch.distributed  # noqa: F401

    _seed_generators(0)


def join(rank: int, num_ranks: int, backend: Backend, store: str) -> None:
    """Become a rank: bind the device, set up the default process group. Every rank calls it."""
    global _rank, _device
    import torch
    import torch.distributed as dist

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1").partition(",")[0]))
    if loopback := [name for _, name in socket.if_nameindex() if name.startswith("lo")]:
        os.environ["GLOO_SOCKET_IFNAME"] = loopback[0]
    _rank, _device = rank, backend.bind(rank)
    dist.init_process_group(
        backend.name,
        store=dist.FileStore(store, num_ranks),  # type: ignore[attr-defined]
        rank=rank,
        world_size=num_ranks,
        timeout=_FOREVER,
        device_id=_device if backend.needs_devices else None,
    )


def main(channel_descriptor: int, stack: int) -> NoReturn:
    """Answer calls until the controller lets go."""
    channel = Channel(socket.socket(fileno=channel_descriptor), blocking=True)
    faulthandler.enable(stack)
    faulthandler.register(signal.SIGUSR1, stack)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True, errors="backslashreplace")  # type: ignore[union-attr]
    pid = os.getpid()
    while (call := channel.receive()) is not None:
        for descriptor in (1, stack):
            os.ftruncate(descriptor, 0)
        answer = _answer(*call)
        if os.getpid() != pid:
            break  # a fork that the function made and let return
        channel.send(answer)
    os._exit(0)


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
    if context.environment is not None:
        os.environ.clear()
        os.environ.update(context.environment)
    _seed_generators(context.seed + (_rank or 0))


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
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # the first frame is `_answer`
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


def _reply(failure: RankError | None, value: bytes) -> Message:
    return pickle.dumps((failure, time.monotonic())), value


def _status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1
