"""Move the bytes: one exchange in which all ranks agree to start, then rounds of messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
import torch.distributed as dist

from pytest_affine.errors import TransferRefusedError
from pytest_affine.plans import StagingBudget, TransferEndpoints, TransferPlan, TransferStats
from pytest_affine.reference.agreement import agree, refuse
from pytest_affine.reference.batch import Side
from pytest_affine.reference.buffers import Buffers
from pytest_affine.reference.dtypes import Dtype
from pytest_affine.reference.program import Program, programmed
from pytest_affine.reference.rounds import Rounds

__all__ = ["Transport", "execute_transfers"]

DEFAULT_BUDGET = StagingBudget()

Prepared = TypeVar("Prepared")


def execute_transfers(
    plans: Mapping[str, TransferPlan],
    source_buffers: Buffers,
    target_buffers: Buffers,
    endpoints: TransferEndpoints,
    *,
    dtype: Dtype | Mapping[str, Dtype],
    budget: StagingBudget = DEFAULT_BUDGET,
    group: dist.ProcessGroup | None = None,
    cast: bool = False,
) -> TransferStats:
    """Fill the target shards of this process from source shards anywhere in the group.

    Collective: every rank of `group` calls it, also one that no endpoint names. Returns when all
    that this process sends and receives has landed. Memory beyond the schedule's arenas is only
    taken by one small exchange before anything moves.

    Args:
        plans: by parameter, in the batch's order; the same on every rank.
        source_buffers: by parameter and location, the packed source shards of this process, on
            the device that the group moves; an empty shard may be left out.
        target_buffers: the same for target shards, which are written in place.
        endpoints: which process (rank of `group`) holds which location.
        dtype: of the elements, one for all parameters or one per parameter; with `cast` also a
            pair, of source and target.
        budget: bytes staged per peer and direction at one time.
        group: transport group; the default group when None.
        cast: whether dtypes may differ. Each element then becomes what `Tensor.to` makes of it: at
            its sender if that is smaller on the wire, else at its receiver.

    Raises:
        TransferRefusedError: on every rank, before anything moved, if one rank must refuse or if
            ranks disagree; the message says which and why. The group stays usable.
    """
    transport = Transport(group)

    def prepare() -> tuple[Program, Rounds]:
        program = programmed(
            plans, endpoints, dtype=dtype, budget=budget, group=transport.group, cast=cast
        )
        buffers: dict[Side, Buffers] = {"source": source_buffers, "target": target_buffers}
        return program, Rounds(program, program.bind(buffers, transport.device), transport.device)

    program, rounds = transport.agreed(prepare, lambda found: found[0].agreement)
    transport.move(rounds)
    return program.stats


class Transport:
    """A group that moves data between its ranks, and where.

    Raises:
        TransferRefusedError: this process is no rank of the group.
    """

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        group = dist.group.WORLD if group is None else group
        if group is None or dist.get_rank(group) < 0:
            raise TransferRefusedError("this process is no rank of the group, so it takes no part")
        self.group = group
        self.device = _device(group)

    def agreed(
        self, prepare: Callable[[], Prepared], agreement_of: Callable[[Prepared], str]
    ) -> Prepared:
        """Prepare, and return what is prepared once all ranks have. Called on every rank.

        Args:
            prepare: may raise, and then every rank does.
            agreement_of: what must be the same on every rank of what each has prepared.

        Raises:
            TransferRefusedError: on every rank, if one can't prepare, or if ranks disagree.
        """
        with torch.inference_mode():
            try:
                prepared = prepare()
                agreement = agreement_of(prepared)
            except Exception as error:  # whatever it is, the other ranks must hear of it
                refuse(error, self.group, self.device)
            agree(agreement, self.group, self.device)
        return prepared

    def move(self, rounds: Rounds) -> None:
        """Run rounds, and return when all has landed. Called on every rank."""
        with torch.inference_mode():
            rounds.run(self.group)
        if self.device.type != "cpu":
            torch.accelerator.current_stream(self.device).synchronize()


def _device(group: dist.ProcessGroup) -> torch.device:
    """Where the group moves data: the accelerator, unless it has none or gloo is its backend."""
    backends = dict(entry.split(":") for entry in dist.get_backend_config(group).split(","))
    available = torch.accelerator.is_available()
    accelerator = torch.accelerator.current_accelerator() if available else None
    if accelerator is None or backends.get(accelerator.type, "gloo") == "gloo":
        return torch.device("cpu")
    return torch.empty(0, device=accelerator.type).device
