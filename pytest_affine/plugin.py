"""The pytest plugin: options, and nothing heavy until one of them is used."""

from __future__ import annotations

import pytest

__all__: list[str] = []

pytest_plugins = [
    "pytest_affine.fixtures.ranks",
    "pytest_affine.fixtures.probe",
    "pytest_affine.launched",
]

DEFAULT_RANKS = 4
DEFAULT_TIMEOUT = 30.0
DEFAULT_LEASE_TIMEOUT = 600.0
DEFAULT_EXAMPLES = 25

INI = ("affine_timeout", "affine_devices", "affine_lease_timeout")
"""Options of which the ini file has one of the same name, for when they aren't given."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; their defaults are applied where they are used."""
    group = parser.getgroup("affine", "certify resharders (pytest-affine)")
    group.addoption(
        "--affine-certify",
        metavar="NAME",
        help="certify this implementation: a registered name, or module:attribute; "
        "an empty NAME turns the ini option affine_certify off",
    )
    group.addoption(
        "--affine-ranks",
        metavar="N",
        help=f"size of the process group (default: {DEFAULT_RANKS})",
    )
    group.addoption(
        "--affine-backend",
        metavar="NAME",
        help="gloo, nccl or xccl (default: gloo)",
    )
    group.addoption(
        "--affine-devices",
        metavar="ID,ID,...",
        help="ids of the devices that this session may use (default: all there are), "
        "of which each rank leases one",
    )
    group.addoption(
        "--affine-lease-timeout",
        metavar="SECONDS",
        help="how long ranks wait for devices that others have leased "
        f"(default: {DEFAULT_LEASE_TIMEOUT:g})",
    )
    group.addoption(
        "--affine-timeout",
        metavar="SECONDS",
        help=f"deadline of one call in the ranks (default: {DEFAULT_TIMEOUT:g})",
    )
    group.addoption(
        "--affine-seed",
        metavar="N",
        help="seed of everything that is drawn (default: 0)",
    )
    group.addoption(
        "--affine-examples",
        metavar="N",
        help=f"how many cases each property test draws (default: {DEFAULT_EXAMPLES})",
    )
    group.addoption(
        "--affine-case",
        metavar="JSON",
        help="judge this case only, as a failure prints it",
    )
    group.addoption(
        "--affine-mutants",
        action="store_true",
        default=None,
        help="also run the suite against faulty variants of what is certified, "
        "and fail unless it notices each",
    )
    group.addoption(
        "--affine-mutant",
        action="append",
        metavar="ID",
        help="try this mutant only, or those of module:attribute (may be given several times)",
    )
    group.addoption(
        "--affine-certificate",
        metavar="PATH",
        help="write a certificate of what was judged to this file",
    )
    group.addoption(
        "--affine-waivers",
        metavar="PATH",
        help="what is known not to hold (default: affine-waivers.toml in the root folder, if any)",
    )
    group.addoption(
        "--affine-mutate",
        metavar="MODULE:FUNCTION[=METHOD]",
        help="run these tests again with each mutant of a function that does what a method of "
        "pytest_affine.Implementation does, and print the faults that they never notice",
    )
    parser.addini("affine_certify", "implementation that a plain run of pytest certifies")
    parser.addini("affine_timeout", "default of --affine-timeout")
    parser.addini("affine_devices", "default of --affine-devices")
    parser.addini("affine_lease_timeout", "default of --affine-lease-timeout")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check what was asked for, before anything is collected; set up certifying if it was."""
    if is_used(config):
        from pytest_affine.session import configure

        configure(config, _certified(config))
    if (target := config.getoption("affine_mutate")) is not None:
        from pytest_affine.mutants.own_tests import configure_own_tests

        configure_own_tests(config, target)


def is_used(config: pytest.Config) -> bool:
    """Whether the command line asks for anything here, or the ini file for certifying."""
    given = any(config.getoption(option) is not None for option in RUNNING)
    return given or bool(_certified(config))


def _certified(config: pytest.Config) -> str:
    name: str | None = config.getoption("affine_certify")
    return config.getini("affine_certify") if name is None else name


RUNNING = (
    "affine_ranks",
    "affine_backend",
    "affine_devices",
    "affine_lease_timeout",
    "affine_timeout",
    "affine_seed",
    "affine_examples",
    "affine_case",
    "affine_mutants",
    "affine_mutant",
    "affine_certificate",
    "affine_waivers",
)
