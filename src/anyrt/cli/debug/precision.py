"""The fewest layers that must stay float32 if a half type is allowed.

The search measures the error against float32 with all layers in the half type, and with each layer alone in
it. Layers are ranked by the latter. Bisection finds the shortest prefix of the ranking that is accurate
enough; then each of its layers is tried in the half type again, the least sensitive first. No layer of the
result can therefore be left out alone.

>>> fewest(["a", "b", "c"], lambda kept: 0.0 if {"a", "c"} <= kept else 1.0, 0.5).kept
('a', 'c')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from anyrt.api.building.builder import Builder
from anyrt.api.model.layer import ILayer
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.run.runtime import Runtime
from anyrt.cli.progress import Silent
from anyrt.core.dtype import is_float
from anyrt.core.enums import BuilderFlag, DataType
from anyrt.core.flags import strict
from anyrt.onnx.parser import OnnxParser
from anyrt.onnx.session import refused
from anyrt.ops._record import Array

FLAGS: Final = {"fp16": BuilderFlag.FP16, "bf16": BuilderFlag.BF16}
Error = Callable[[frozenset[str]], float]


@dataclass(frozen=True, slots=True)
class Found:
    """The layers that stay float32, the error with them and without any, and the number of builds."""

    kept: tuple[str, ...]
    error: float
    without: float
    builds: int


def fewest(layers: Sequence[str], error: Error, limit: float) -> Found:
    """The layers that must stay float32 so that the error is at most `wanted`."""
    errors = dict[frozenset[str], float]()

    def known(kept: frozenset[str]) -> float:
        if kept not in errors:
            errors[kept] = error(kept)
        return errors[kept]

    without, every = known(frozenset()), frozenset(layers)
    if without <= limit:
        return Found((), without, without, len(errors))
    ranked = sorted(layers, key=lambda name: -known(every - {name}))
    low, high = 0, len(ranked)  # the first `high` of the ranking are enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if known(frozenset(ranked[:middle])) <= limit else (middle, high)
    kept = frozenset(ranked[:high])
    for name in reversed(ranked[:high]):
        if known(kept - {name}) <= limit:
            kept -= {name}
    return Found(tuple(n for n in layers if n in kept), known(kept), without, len(errors))


@dataclass(slots=True)
class Trials:
    """Builds of a model with some layers in float32, and their outputs for the same inputs."""

    path: Path
    kind: str
    feeds: Mapping[str, Array]
    _exact: Mapping[str, Array] = field(default_factory=dict)

    def layers(self) -> list[str]:
        """The layers that may compute in a half type."""
        network = self._network(Builder(Silent()))
        return [layer.name for layer in network if _computes(layer)]

    def error(self, kept: frozenset[str]) -> float:
        """The largest difference from float32 of any output, relative to the output's largest magnitude."""
        if not self._exact:
            self._exact = self._run(None)
        outputs = self._run(kept)
        return max((_difference(outputs[n], x) for n, x in self._exact.items()), default=0.0)

    def _run(self, kept: frozenset[str] | None) -> dict[str, Array]:
        builder = Builder(Silent())
        with strict():
            network, config = self._network(builder), builder.create_builder_config()
            if kept is not None:
                config.set_flag(FLAGS[self.kind])
                config.set_flag(BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
                for layer in network:
                    if layer.name in kept:
                        layer.precision = DataType.FLOAT
            plan = builder.build_serialized_network(network, config)
            return Runtime(Silent()).deserialize_cuda_engine(plan).run(**self.feeds)

    def _network(self, builder: Builder) -> INetworkDefinition:
        network = INetworkDefinition(builder, 0)
        parser = OnnxParser(network, Silent())
        if not parser.parse_from_file(str(self.path)):
            raise refused(parser)
        return network


def _computes(layer: ILayer) -> bool:
    outputs = [layer.get_output(i) for i in range(layer.num_outputs)]
    return layer.num_inputs > 0 and any(t is not None and is_float(t.dtype) for t in outputs)


def _difference(got: Array, expected: Array) -> float:
    a, b = got.astype(np.float64), expected.astype(np.float64)
    if a.shape != b.shape or not a.size:
        return float("inf") if a.shape != b.shape else 0.0
    with np.errstate(all="ignore"):
        off = np.max(np.where(a == b, 0.0, np.abs(a - b)))
    return float(off / (np.max(np.abs(b)) or 1.0)) if np.isfinite(off) else float("inf")


def options_of(kind: str, kept: Sequence[str]) -> str:
    """The options for `anyrt exec` and trtexec."""
    flags = [f"--{kind}"]
    if kept:
        flags += ["--precisionConstraints=obey", f"--layerPrecisions={','.join(f'{n}:fp32' for n in kept)}"]
    return " ".join(flags)
