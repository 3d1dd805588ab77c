"""Executors that refuse, or fail to refuse, with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

import re
from typing import Any

import torch
import torch.distributed as dist

from faulty.parts import NOTHING, Buffers, Plans, changed_tensors, each, raise_type_error
from pytest_affine.adapters.reference import Reference
from pytest_affine.errors import (
    TransferRefusedError,
    UnsupportedLayoutError,
)
from pytest_affine.plans import (
    TransferStats,
)


class FaultyRefusal(Reference):
    """Refuses in another way."""

    def execute_transfers(
        self, plans: Plans, sources: Buffers, targets: Buffers, *args: Any, **options: Any
    ) -> TransferStats:
        try:
            return super().execute_transfers(plans, sources, targets, *args, **options)
        except TransferRefusedError as refusal:
            return self.refused(refusal, targets)

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise NotImplementedError


class RefusesOnOneRank(FaultyRefusal):
    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        if dist.get_rank() == 1:
            raise refusal
        return NOTHING


class RefusesNothing(FaultyRefusal):
    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        return NOTHING


class RefusesAsUnsupported(FaultyRefusal):
    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise UnsupportedLayoutError(str(refusal))


class RefusesWithTypeErrors(FaultyRefusal):
    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise_type_error()


class RefusesItself(FaultyRefusal):
    """With an error that is no refusal, raised in this file: an adapter error."""

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise TypeError(str(refusal))


class ClearsTargetsThenRefuses(FaultyRefusal):
    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        for tensor in each(targets):
            if not tensor.is_meta:
                tensor.zero_()
        raise refusal


class BreaksAfterRefusing(FaultyRefusal):
    """Moves nothing ever after."""

    broken = False

    def execute_transfers(self, *args: Any, **options: Any) -> TransferStats:
        return NOTHING if self.broken else super().execute_transfers(*args, **options)

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        self.broken = True
        raise refusal


class RefusesBeforeTheExchange(Reference):
    """F26: a rank that misses a buffer raises at once; the others wait for it."""

    def execute_transfers(
        self, plans: Plans, sources: Any, targets: Buffers, endpoints: Any, **options: Any
    ) -> TransferStats:
        for name, plan in plans.items():
            for location, _ in plan.source_sizes or ():
                bound = dict(endpoints.source)[location] == dist.get_rank()
                if bound and location not in sources.get(name, {}):
                    raise TransferRefusedError(f"{name!r} misses the source buffer {location}")
        return super().execute_transfers(plans, sources, targets, endpoints, **options)


class TakesSizesOnTrust(Reference):
    """F14: of a buffer that is too small it reads what follows in memory."""

    def execute_transfers(
        self, plans: Plans, sources: Buffers, *args: Any, **options: Any
    ) -> TransferStats:
        def trusted(name: str, location: int, tensor: torch.Tensor) -> torch.Tensor:
            size = dict(plans[name].source_sizes or ()).get(location, 0)
            return tensor.as_strided((size,), (1,), tensor.storage_offset())

        believed = {
            name: {at: trusted(name, at, tensor) for at, tensor in held.items()}
            for name, held in sources.items()
        }
        return super().execute_transfers(plans, believed, *args, **options)


class ReinterpretsDtypes(Reference):
    """F31: takes any source buffer for one of the dtype that was said."""

    def execute_transfers(
        self, plans: Plans, sources: Buffers, *args: Any, dtype: Any, **options: Any
    ) -> TransferStats:
        def as_said(tensor: torch.Tensor) -> torch.Tensor:
            return tensor if tensor.is_meta else torch.zeros(tensor.shape, dtype=dtype)

        others = changed_tensors(sources, lambda t: t if t.dtype == dtype else as_said(t))
        return super().execute_transfers(plans, others, *args, dtype=dtype, **options)


class BelievesRankZero(Reference):
    """Compares nothing: every rank takes what rank 0 was told."""

    def execute_transfers(
        self, plans: Plans, sources: Any, targets: Any, endpoints: Any, **options: Any
    ) -> TransferStats:
        told = [plans, endpoints, options["dtype"], options["budget"]]
        dist.broadcast_object_list(told)
        plans, endpoints, options["dtype"], options["budget"] = told
        return super().execute_transfers(plans, sources, targets, endpoints, **options)


class ComparesBytesOnly(Reference):
    """Takes another dtype of the same size for the same."""

    def execute_transfers(
        self, plans: Plans, sources: Any, targets: Any, *args: Any, dtype: Any, **options: Any
    ) -> TransferStats:
        words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

        def word(kind: torch.dtype) -> torch.dtype:
            return words[kind.itemsize]

        kinds = {at: word(k) for at, k in dtype.items()} if isinstance(dtype, dict) else word(dtype)
        return super().execute_transfers(
            plans,
            changed_tensors(sources, lambda t: t.view(word(t.dtype))),
            changed_tensors(targets, lambda t: t.view(word(t.dtype))),
            *args,
            dtype=kinds,
            **options,
        )


class NamesNobody(FaultyRefusal):
    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise TransferRefusedError("some ranks refuse or disagree")


class NamesItselfOnly(FaultyRefusal):
    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise TransferRefusedError(f"process {dist.get_rank()} could not go on")


class KeepsReasonsToItself(FaultyRefusal):
    """Names the processes that refuse, and not the parameters."""

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        raise TransferRefusedError(re.sub(r"'[^']*'", "one", str(refusal)))


class SendsBeforeRefusing(FaultyRefusal):
    """Its sources go out before the exchange is over; nobody receives them."""

    def execute_transfers(
        self, plans: Plans, sources: Buffers, *args: Any, **options: Any
    ) -> TransferStats:
        self._payload = [tensor for tensor in each(sources) if plans and not tensor.is_meta]
        return super().execute_transfers(plans, sources, *args, **options)

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        following = (dist.get_rank() + 1) % dist.get_world_size()
        self._works = [
            dist.isend(tensor.contiguous(), following, tag=9) for tensor in self._payload
        ]
        raise refusal


class BroadcastsBeforeRefusing(FaultyRefusal):
    """Something goes to everybody, where there is something to move."""

    def execute_transfers(self, plans: Plans, *args: Any, **options: Any) -> TransferStats:
        self._has_payload = bool(plans)
        return super().execute_transfers(plans, *args, **options)

    def refused(self, refusal: TransferRefusedError, targets: Buffers) -> TransferStats:
        if self._has_payload:
            dist.broadcast(torch.zeros(4), 0)
        raise refusal
