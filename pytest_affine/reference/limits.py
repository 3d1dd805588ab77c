"""The limits of a plan budget."""

from pytest_affine.errors import PlanLimitError
from pytest_affine.plans import PlanBudget

__all__ = ["check_limit"]


def check_limit(limits: PlanBudget, field: str, count: int) -> None:
    """Refuse to go on with `count` of what `field` of the budget bounds.

    Raises:
        PlanLimitError: the count exceeds the limit; says how to raise it.
    """
    limit: int = getattr(limits, field)
    if count > limit:
        raise PlanLimitError(
            f"planning takes {count} or more of what PlanBudget.{field} limits to {limit}; "
            f"to allow it pass limits=PlanBudget({field}={count}) or more"
        )
