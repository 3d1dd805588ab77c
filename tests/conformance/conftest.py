from collections.abc import Iterator

import pytest
from judging import DEADLINE, Judge

from pytest_affine.ranks import RankPool


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """A judge with 4 ranks."""
    with RankPool(4, deadline=DEADLINE) as pool:
        yield Judge(pool)
