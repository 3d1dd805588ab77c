"""The errors that resharders raise on purpose; anything else they raise is a fault."""

__all__ = [
    "AffineTransferError",
    "InvalidMapError",
    "InvalidReplicaPolicyError",
    "PlanLimitError",
    "TransferRefusedError",
    "UnsupportedLayoutError",
]


class AffineTransferError(ValueError):
    """A transfer that must not be planned or executed as it was asked for."""


class InvalidMapError(AffineTransferError):
    """A map contradicts itself, or two maps contradict each other.

    Falling back to another path would hide a corrupt checkpoint.
    """


class UnsupportedLayoutError(AffineTransferError):
    """A legitimate layout that is not expressed here; the caller may rebuild instead."""


class InvalidReplicaPolicyError(AffineTransferError):
    """A replica policy or selector gave an answer that is no valid choice."""


class PlanLimitError(AffineTransferError):
    """A limit of the plan budget was reached; a plan is never shortened instead."""


class TransferRefusedError(AffineTransferError):
    """An execution that must not start; raised on every rank, before any payload moves."""
