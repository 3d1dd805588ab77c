"""Parameters of tests that do not run by default."""

from typing import Any

import pytest


def long(*values: Any) -> list[Any]:
    """Parameters whose tests `tox -e long` runs."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]
