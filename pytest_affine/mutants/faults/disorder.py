"""Executors that are right as long as messages come in time and in the order they are wont to."""

# What wraps a method names no arguments.
# mypy: disable-error-code="override"

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch.distributed as dist

from pytest_affine.contract.implementation import Implementation
from pytest_affine.plans import TransferStats
from pytest_affine.ranks import Drop, wire_faults

Receive = Callable[[Any, Any, int, int], Any]


@contextmanager
def receiving(make: Callable[[Receive], Receive]) -> Iterator[None]:
    """Receive in another way, which is made of the usual one."""
    usual = dist.ProcessGroup.recv
    dist.ProcessGroup.recv = make(usual)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        dist.ProcessGroup.recv = usual  # type: ignore[method-assign]


class TakesMessagesAsTheyCome(Implementation):
    """Takes the first message to arrive for that of the first peer."""

    def execute_transfers(self, *args: Any, **options: Any) -> TransferStats:
        def make(usual: Receive) -> Receive:
            return lambda group, tensors, _, tag: group.recv_anysource(tensors, tag)

        with receiving(make):
            return super().execute_transfers(*args, **options)


class NotWaitedFor:
    """In place of the work of a receive; keeps that, as gloo writes into its tensor."""

    def __init__(self, work: Any) -> None:
        self.work = work

    def wait(self) -> bool:
        return True


class ForgetsToWaitForProcessZero(Implementation):
    """Does not wait for what process 0 sends."""

    def __init__(self) -> None:
        super().__init__()
        self._works: list[NotWaitedFor] = []

    def execute_transfers(self, *args: Any, **options: Any) -> TransferStats:
        def make(usual: Receive) -> Receive:
            return lambda *message: self._received(message[2], usual(*message))

        with receiving(make):
            return super().execute_transfers(*args, **options)

    def _received(self, source: int, work: Any) -> Any:
        if source != 0:
            return work
        self._works.append(NotWaitedFor(work))
        return self._works[-1]


class AddsUpItsStatistics(Implementation):
    """Returns as bytes sent those of all calls so far."""

    def __init__(self) -> None:
        super().__init__()
        self._sent_bytes = 0

    def execute_transfers(self, *args: Any, **options: Any) -> TransferStats:
        stats = super().execute_transfers(*args, **options)
        self._sent_bytes += stats.sent_bytes
        return replace(stats, sent_bytes=self._sent_bytes)


class LosesAMessage(Implementation):
    """Does not send the third message from process 0 to process 1, nor those after it."""

    def execute_transfers(self, *args: Any, **options: Any) -> TransferStats:
        with wire_faults(Drop(0, 1, 2)):
            return super().execute_transfers(*args, **options)
