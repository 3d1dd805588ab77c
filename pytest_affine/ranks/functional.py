"""Kernels over the functional collectives of torch, which record what they are called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _resolve_process_group  # type: ignore[attr-defined]

from pytest_affine.ranks.methods import Group, Groups, at_root, measured, parts, tensors_of
from pytest_affine.ranks.record import Call, Record

_KEYS = ("CPU", "CUDA", "XPU")
_KINDS = {
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_reduce_coalesced": "all_reduce_coalesced",
    "all_reduce_coalesced_": "all_reduce_coalesced",
    "all_gather_into_tensor": "all_gather_into_tensor",
    "all_gather_into_tensor_out": "all_gather_into_tensor",
    "all_gather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "reduce_scatter_tensor": "reduce_scatter_tensor",
    "reduce_scatter_tensor_out": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "all_to_all_single",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
}


def _operations(namespace: str) -> dict[str, Any]:
    """What this version of torch has of them; it takes time to look that up."""
    packets = getattr(torch.ops, namespace)
    names = [name for name in ("wait_tensor", *_KINDS) if hasattr(packets, name)]
    return {name: getattr(packets, name).default for name in names}


_OPERATIONS = {
    namespace: _operations(namespace)
    for namespace in ("_c10d_functional", "_c10d_functional_autograd")
}


class FunctionalTap:
    """Lays the kernels over the ones of torch, until `remove`."""

    def __init__(self, record: Record, groups: Groups) -> None:
        self._record = record
        self._groups = groups
        self._waiting: dict[int, Call] = {}  # by the storage of an output
        self._libraries = [self._cover(*each) for each in _OPERATIONS.items()]

    def remove(self) -> None:
        """Take the kernels away."""
        for library in self._libraries:
            library._destroy()  # type: ignore[no-untyped-call]

    def _cover(self, namespace: str, operations: Mapping[str, Any]) -> torch.library.Library:
        library = torch.library.Library(namespace, "IMPL")  # type: ignore[no-untyped-call]
        for name, operation in operations.items():
            below, kind = _below(operation), _KINDS.get(name)
            kernel = self._wait(below) if kind is None else self._collective(below, kind)
            for key in _KEYS:
                library.impl(name, kernel, key)  # type: ignore[no-untyped-call]
        return library

    def _collective(self, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
        record = self._record

        def kernel(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            group = self._group(args[-1])
            call = self._enter(kind, group, args)
            try:
                result = original(*args, **kwargs)
            except BaseException:
                record.refuse(call)
                raise
            record.leave(call)
            record.started(call)
            self._await(call, group, result)
            return result

        return kernel

    def _wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        record = self._record

        def kernel(tensor: torch.Tensor) -> Any:
            __tracebackhide__ = True
            call = self._waiting.pop(_storage(tensor), None)
            if call is None:
                return original(tensor)
            record.resume(call)
            try:
                result = original(tensor)
            except BaseException:
                record.leave(call, raised=True)
                raise
            record.leave(call)
            record.end(call)
            return result

        return kernel

    def _group(self, given: Any) -> Group:
        known = given if isinstance(given, dist.ProcessGroup) else _resolve_process_group(given)
        return self._groups.of(known)

    def _enter(self, kind: str, group: Group, args: tuple[Any, ...]) -> Call:
        sent, dtype = measured(args[0])
        part, peer = sent, None
        if kind.startswith("reduce_scatter"):
            part //= len(group.ranks)
        if kind == "broadcast":
            peer = group.ranks[args[1]]
            sent, _ = at_root(kind, args[1] == group.position, sent, 0)
        call = self._record.enter(kind, group.name, group.ranks, peer, part, dtype, 0, sent, 0)
        if kind == "all_to_all_single":
            call.sent_parts = parts(args[0], args[2], len(group.ranks))
        return call

    def _await(self, call: Call, group: Group, result: Any) -> None:
        received, _ = measured(result)
        is_root = call.peer == group.ranks[group.position]
        _, call.received_bytes = at_root(call.kind, is_root, 0, received)
        outputs = tensors_of(result)
        call.num_pending = len(outputs)
        for tensor in outputs:
            key = _storage(tensor)
            if (forgotten := self._waiting.get(key)) is not None:
                self._record.lose(forgotten)
            self._waiting[key] = call


def _below(operation: Any) -> Callable[..., Any]:
    """The kernel of torch, which is made for every device, and so is found by a call without one.

    Ours have the places of the devices.
    """
    nowhere = torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)
    return lambda *args, **kwargs: operation.redispatch(nowhere, *args, **kwargs)


def _storage(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address
