"""Real models on real layouts: `load_model(name).maps_on("tp8,fsdp64")`."""

from pytest_affine.models.model import (
    Layers,
    Model,
    describe_all,
    layers_per_stage,
    load_model,
    model_names,
)
from pytest_affine.models.sharding import Sharding, parse_sharding

__all__ = [
    "Layers",
    "Model",
    "Sharding",
    "describe_all",
    "layers_per_stage",
    "load_model",
    "model_names",
    "parse_sharding",
]
