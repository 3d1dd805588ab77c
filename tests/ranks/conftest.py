from collections.abc import Iterator

import pytest

from pytest_affine.ranks import RankPool


@pytest.fixture(scope="module")
def pool() -> Iterator[RankPool]:
    with RankPool(4, deadline=20.0) as pool:
        yield pool
