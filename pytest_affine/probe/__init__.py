"""The probe: certifies any refit, with no adapter, by what its tensors hold before and after."""

from pytest_affine.probe.probing import Probe
from pytest_affine.probe.report import Fault, ProbeReport, Sighting
from pytest_affine.probe.sides import Accessors, Names, Shard, Side, Tensors

__all__ = [
    "Accessors",
    "Fault",
    "Names",
    "Probe",
    "ProbeReport",
    "Shard",
    "Side",
    "Sighting",
    "Tensors",
]
