"""Executors that refuse with one fault each, or do not compare what ranks were told."""

from __future__ import annotations

import re
from typing import Any

import torch
import torch.distributed as dist

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import TransferRefusedError, UnsupportedLayoutError
from pytest_affine.mutants.faults.parts import (
    NOTHING,
    Buffers,
    changed_tensors,
    each,
    raise_type_error,
)
from pytest_affine.plans import TransferStats


class FaultyRefusal(Implementation):
    """Refuses in another way."""

    def execute_transfers(
        self, plans: Any, source_buffers: Any, target_buffers: Any, *args: Any, **options: Any
    ) -> TransferStats:
        try:
            return super().execute_transfers(
                plans, source_buffers, target_buffers, *args, **options
            )
        except TransferRefusedError as refusal:
            return self.refused(refusal, target_buffers)

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise NotImplementedError


class RefusesOnOneRank(FaultyRefusal):
    """Refuses on rank 1 only."""

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        if dist.get_rank() == 1:
            raise refusal
        return NOTHING


class RefusesNothing(FaultyRefusal):
    """Moves nothing, and returns, where it must refuse."""

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        return NOTHING


class RefusesAsUnsupported(FaultyRefusal):
    """Refuses with an error of another kind."""

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise UnsupportedLayoutError(str(refusal))


class CrashesWhereItMustRefuse(FaultyRefusal):
    """Crashes where it must refuse."""

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise_type_error()


class ClearsTargetsThenRefuses(FaultyRefusal):
    """Clears targets, and then refuses."""

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        for tensor in each(targets):
            if not tensor.is_meta:
                tensor.zero_()
        raise refusal


class BreaksAfterRefusing(FaultyRefusal):
    """Moves nothing ever after it has refused, and takes part in the exchange of empty batches."""

    broken = False

    def execute_transfers(self, plans: Any, *args: Any, **options: Any) -> TransferStats:
        if self.broken and plans:
            return NOTHING
        return super().execute_transfers(plans, *args, **options)

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        self.broken = True
        raise refusal


class RefusesBeforeTheExchange(Implementation):
    """Raises at once on a rank that misses a source buffer, and leaves the others waiting."""

    def execute_transfers(
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        endpoints: Any,
        **options: Any,
    ) -> TransferStats:
        for name, plan in plans.items():
            for location in {segment.source_location for segment in plan.segments}:
                bound = dict(endpoints.source).get(location) == dist.get_rank()
                if bound and location not in source_buffers.get(name, {}):
                    raise TransferRefusedError(f"{name!r} misses the source buffer {location}")
        return super().execute_transfers(
            plans, source_buffers, target_buffers, endpoints, **options
        )


class BelievesRankZero(Implementation):
    """Compares nothing, and does on every rank what rank 0 was told."""

    def execute_transfers(
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        endpoints: Any,
        **options: Any,
    ) -> TransferStats:
        told = [plans, endpoints, options["dtype"], options["budget"]]
        dist.broadcast_object_list(told)
        plans, endpoints, options["dtype"], options["budget"] = told
        return super().execute_transfers(
            plans, source_buffers, target_buffers, endpoints, **options
        )


class ComparesBytesOnly(Implementation):
    """Takes another dtype of the same size for the same."""

    def execute_transfers(
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        *args: Any,
        dtype: Any,
        **options: Any,
    ) -> TransferStats:
        words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

        def word(kind: torch.dtype) -> torch.dtype:
            return words[kind.itemsize]

        kinds = {at: word(k) for at, k in dtype.items()} if isinstance(dtype, dict) else word(dtype)
        return super().execute_transfers(
            plans,
            changed_tensors(source_buffers, lambda t: t.view(word(t.dtype))),
            changed_tensors(target_buffers, lambda t: t.view(word(t.dtype))),
            *args,
            dtype=kinds,
            **options,
        )


class NamesNobody(FaultyRefusal):
    """Refuses without naming a process."""

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise TransferRefusedError("some ranks refuse or disagree")


class NamesItselfOnly(FaultyRefusal):
    """Names the process itself in every refusal, and no other."""

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise TransferRefusedError(f"process {dist.get_rank()} could not go on")


class KeepsReasonsToItself(FaultyRefusal):
    """Names the processes that refuse, and not the parameters."""

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise TransferRefusedError(re.sub(r"'[^']*'", "one", str(refusal)))


class SendsBeforeRefusing(FaultyRefusal):
    """Sends its sources before it refuses; nobody receives them."""

    def execute_transfers(
        self, plans: Any, source_buffers: Any, *args: Any, **options: Any
    ) -> TransferStats:
        self._payload = [tensor for tensor in each(source_buffers) if plans and not tensor.is_meta]
        return super().execute_transfers(plans, source_buffers, *args, **options)

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        following = (dist.get_rank() + 1) % dist.get_world_size()
        self._works = [
            dist.isend(tensor.contiguous(), following, tag=9) for tensor in self._payload
        ]
        raise refusal


class BroadcastsBeforeRefusing(FaultyRefusal):
    """Sends something to everybody before it refuses, where there is something to move."""

    def execute_transfers(self, plans: Any, *args: Any, **options: Any) -> TransferStats:
        self._has_payload = bool(plans)
        return super().execute_transfers(plans, *args, **options)

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        if self._has_payload:
            dist.broadcast(torch.zeros(4), 0)
        raise refusal
