"""Real models: every parameter, its shape and how tensor and expert parallelism cut it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from pytest_affine.errors import AffineTransferError
from pytest_affine.layouts import Kind, Layout, Parameter, Vocab, describe
from pytest_affine.maps import ParamAffineMap
from pytest_affine.models.data_parallel import flattened, fully_sharded
from pytest_affine.models.sharding import Sharding, parse_sharding

__all__ = [
    "Layers",
    "Model",
    "describe_all",
    "layers_per_stage",
    "load_model",
    "model_names",
]

_FOLDER = files("pytest_affine.fixtures") / "layouts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Consecutive layers with the same parameters; names have `{layer}` for the number."""

    count: int
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model's parameters, for any layout.

    Attributes:
        name: such as "llama-3-8b".
        sources: where its dimensions are published.
        notes: what is left out or done otherwise than in the published files.
        first: parameters of the first pipeline stage, before the layers.
        layers: the layers, in order.
        last: parameters of the last stage, after the layers.
        tied: names of parameters of `first` that the last stage holds too.
    """

    name: str
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    first: tuple[Parameter, ...]
    layers: tuple[Layers, ...]
    last: tuple[Parameter, ...]
    tied: tuple[str, ...]

    @property
    def num_layers(self) -> int:
        """How many layers it has."""
        return sum(layers.count for layers in self.layers)

    @property
    def num_elements(self) -> int:
        """Elements of all parameters; tied ones count once."""
        return sum(parameter.num_elements for parameter in self._parameters(1))

    def parameters_on(self, sharding: Sharding | str) -> tuple[Parameter, ...]:
        """Every parameter, with its kind and stages on these ranks, in the model's order.

        Plain data-parallel ranks hold what Megatron-LM's do: a vocabulary has rows of padding, so
        that every tensor-parallel rank has a multiple of 128. FSDP and ZeRO pad no rows.

        Args:
            sharding: ranks and what they do, or degrees such as "tp8,fsdp64".

        Raises:
            UnsupportedLayoutError: a parameter that FSDP or ZeRO cuts as no kind does.
            AffineTransferError: degrees that say nothing, or more stages than layers.
        """
        sharding = _parsed(sharding)
        layout, parameters = sharding.layout, self._parameters(sharding.layout.pp)
        if sharding.data == "fsdp":
            return tuple(fully_sharded(parameter, layout) for parameter in parameters)
        if sharding.data == "zero":
            return flattened(tuple(parameters), layout)
        return tuple(_padded(parameter, layout) for parameter in parameters)

    def maps_on(self, sharding: Sharding | str) -> dict[str, ParamAffineMap]:
        """Every parameter's map on these ranks; parameters that are cut alike share one object.

        Raises as `parameters_on` and `describe` do.
        """
        sharding = _parsed(sharding)
        return describe_all(sharding.layout, self.parameters_on(sharding))

    def _parameters(self, num_stages: int) -> Iterator[Parameter]:
        per_stage = layers_per_stage(self.num_layers, num_stages)
        stages = [stage for stage, count in enumerate(per_stage) for _ in range(count)]
        last = num_stages - 1
        for parameter in self.first:
            tied = parameter.name in self.tied
            yield replace(parameter, stages=(0, last) if tied and last else (0,))
        of_layers = [layers.parameters for layers in self.layers for _ in range(layers.count)]
        for layer, (stage, parameters) in enumerate(zip(stages, of_layers, strict=True)):
            for parameter in parameters:
                yield replace(parameter, name=parameter.name.format(layer=layer), stages=(stage,))
        for parameter in self.last:
            yield replace(parameter, stages=(last,))


def _padded(parameter: Parameter, layout: Layout) -> Parameter:
    """The parameter; a vocabulary is padded to its multiple on every rank, as Megatron-LM does."""
    if not isinstance(parameter.kind, Vocab):
        return parameter
    return replace(parameter, kind=Vocab(parameter.kind.multiple * layout.tp))


def describe_all(layout: Layout, parameters: Iterable[Parameter]) -> dict[str, ParamAffineMap]:
    """Each parameter's map, by name; parameters that are cut alike share one object.

    Raises as `describe` does.
    """
    seen: dict[tuple[Kind, tuple[int, ...], tuple[int, ...]], ParamAffineMap] = {}
    maps = {}
    for parameter in parameters:
        key = parameter.kind, parameter.shape, parameter.stages
        if key not in seen:
            seen[key] = describe(layout, parameter)
        maps[parameter.name] = seen[key]
    return maps


def _parsed(sharding: Sharding | str) -> Sharding:
    return parse_sharding(sharding) if isinstance(sharding, str) else sharding


def layers_per_stage(num_layers: int, num_stages: int) -> list[int]:
    """Layers of each pipeline stage, as even as possible; the outer stages have fewer.

    What is missing to equal stages is taken from the last, the first, the last but one, and so on,
    since the first stage has the embedding and the last the head (Llama 3, section 3.3.2).

    Raises:
        AffineTransferError: more stages than layers.
    """
    if num_stages > num_layers:
        raise AffineTransferError(
            f"pp must be at most {num_layers}, the number of layers, got {num_stages}"
        )
    most = -(-num_layers // num_stages)
    counts = [most] * num_stages
    for index in range(most * num_stages - num_layers):
        counts[index // 2 if index % 2 else -1 - index // 2] -= 1
    return counts


def model_names() -> tuple[str, ...]:
    """The models that `load_model` knows."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def load_model(name: str) -> Model:
    """A model by its name.

    Raises:
        AffineTransferError: no such model; names those there are.
    """
    if name not in model_names():
        raise AffineTransferError(f"a model must be one of {list(model_names())}, got {name!r}")
    entry = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Model(
        name=name,
        sources=tuple(entry["sources"]),
        notes=tuple(entry["notes"]),
        first=_read(entry["first"], entry),
        layers=tuple(
            Layers(count=layers["count"], parameters=_read(layers["parameters"], entry))
            for layers in entry["layers"]
        ),
        last=_read(entry["last"], entry),
        tied=tuple(entry["tied"]),
    )


def _read(entries: list[dict[str, Any]], model: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Parameters of a model's file, whose dtype is the model's unless they say another."""
    return tuple(Parameter.from_dict({"dtype": model["dtype"], **entry}) for entry in entries)
