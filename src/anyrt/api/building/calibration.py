"""Determines the dynamic ranges of tensors from a calibrator's batches, during the build of an int8 network.

Native kernels compute the network in float32, several batches concurrently, each in its own thread. The
engine outputs the largest magnitude and some elements of each tensor that a product reads
(compiler/magnitudes.py).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from math import inf, isfinite, prod
from operator import index
from time import perf_counter
from typing import Any, Final

import numpy as np

from anyrt.api.building.calibration_cache import parse_cache, print_cache
from anyrt.api.building.calibrators import IInt8Calibrator
from anyrt.api.building.compile import compile_request
from anyrt.api.building.config import IBuilderConfig, profiles_in
from anyrt.api.building.precision import is_coded, readers
from anyrt.api.building.profile import IOptimizationProfile
from anyrt.api.building.watch import Watched, watch
from anyrt.api.edge.interfaces import tried
from anyrt.api.edge.oneline import listed, quoted
from anyrt.api.edge.quiet import OfProgram, type_name
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import NetworkState, TensorState, state_of
from anyrt.api.model.view import view_of
from anyrt.api.run.host_memory import IHostMemory
from anyrt.api.run.runtime import Runtime, opened
from anyrt.api.run.source import read_source
from anyrt.compiler.magnitudes import Spread, joined, spread
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import BuilderFlag, CalibrationAlgoType, Severity
from anyrt.core.errors import ArgumentError
from anyrt.core.flags import default_threads
from anyrt.core.units import counted
from anyrt.plan.plan import Binding
from anyrt.runtime.arrays import Array, bind
from anyrt.runtime.engine import Engine
from anyrt.runtime.foreign import read_memory

MAX_CODE: Final = 127
MOST_SAMPLES: Final = 2**31 - 1  # of a batch
MOST_AT_ONCE: Final = 8  # concurrent batches; each needs memory for all tensors of the network


def calibrated(network: INetworkDefinition, config: IBuilderConfig) -> dict[TensorState, float]:
    """The int8 scale of each tensor for which the calibrator of a build supplies one."""
    calibrator, state = config.int8_calibrator, state_of(network)
    if calibrator is None or state.is_strong or not config.get_flag(BuilderFlag.INT8):
        return {}
    if is_coded(state):
        text = "the calibrator is not used: the network has Quantize and Dequantize layers"
        state.channel.log(Severity.WARNING, text)
        return {}
    algorithm = _ask(calibrator, "get_algorithm")
    if not isinstance(algorithm, CalibrationAlgoType):
        raise _unusable("get_algorithm", type_name(algorithm), "a CalibrationAlgoType")
    held = _ask(calibrator, "read_calibration_cache")
    if held is not None and not isinstance(held, bytes | bytearray | memoryview):
        raise _unusable("read_calibration_cache", type_name(held), "bytes, or None")
    if held is not None and memoryview(held).nbytes:
        return _cached(network, parse_cache(held, algorithm))
    learnt = _Calibration(network, config, calibrator, algorithm).run()
    text = print_cache(algorithm, {tensor.name: scale for tensor, scale in learnt.items()})
    _hand_over(state, calibrator, text.encode())
    return learnt


def _hand_over(network: NetworkState, calibrator: IInt8Calibrator, cache: bytes) -> None:
    """Pass the cache to the calibrator; if that fails, log a warning and continue the build."""
    _, error = tried(calibrator.write_calibration_cache, memoryview(cache))
    if error is not None:
        traceback.print_exception(error, file=sys.stderr)
        warning = _unusable("write_calibration_cache", f"{type(error).__name__}: {error}", "no exception")
        network.channel.log(Severity.WARNING, str(warning))


def _cached(network: INetworkDefinition, scales: Mapping[str, float]) -> dict[TensorState, float]:
    view = view_of(network)
    tensors = [*view.inputs, *(t for layer in view.layers for t in layer.outputs)]
    ranges = {t.it: scales[t.name] for t in tensors if t.name in scales}
    if not ranges:
        got = f"{counted(len(scales), 'tensor')}, none of which belongs to this network"
        do = "use the cache of this network, or delete it to calibrate again"
        raise ArgumentError("AR332", "calibration cache", got, "the names of its tensors", do)
    tensors_read = readers(view, view.expansion)
    if missing := [quoted(t.name) for t in tensors_read if t.scale is None and t.it not in ranges]:
        text = f"calibration cache: no scale for {listed(missing)}; their readers are not computed in int8"
        view.log(Severity.WARNING, text)
    return ranges


def _ask(calibrator: IInt8Calibrator, method: str, *args: object) -> Any:  # Any: the caller checks the result
    """The result of a calibrator's method; an exception of it propagates through the build."""
    result, error = tried(lambda: getattr(calibrator, method)(*args))
    if error is not None:
        raise OfProgram(error)
    return result


def _no_batch() -> ArgumentError:
    do = "return the addresses of at least one batch before None"
    return ArgumentError("AR331", "calibrator.get_batch", "no batch", "at least one batch", do)


def _unusable(method: str, got: str, wanted: str) -> ArgumentError:
    return ArgumentError("AR331", f"calibrator.{method}", got, wanted)


@dataclass(frozen=True, slots=True)
class _Calibration:
    """One calibration."""

    network: INetworkDefinition
    config: IBuilderConfig
    calibrator: IInt8Calibrator
    algorithm: CalibrationAlgoType

    def run(self) -> dict[TensorState, float]:
        """The scales of all tensors that products read."""
        began = perf_counter()
        size = _batch_size(_ask(self.calibrator, "get_batch_size"))
        algorithm = self.algorithm
        most = algorithm in (CalibrationAlgoType.MINMAX_CALIBRATION, CalibrationAlgoType.LEGACY_CALIBRATION)
        some = algorithm is not CalibrationAlgoType.MINMAX_CALIBRATION
        watched = watch(self.network, self.profile, size, most=most, some=some)
        if not watched.tensors:  # programs rely on this call even then
            if not sum(1 for _ in self._batches(watched)):
                raise _no_batch()
            return {}
        engine = self._engine(watched)
        spreads, many = self._spreads(engine, watched)
        text = f"calibrated {counted(len(spreads), 'tensor')} with {counted(many, 'batch', 'batches')}"
        state_of(self.network).channel.log(Severity.INFO, f"{text} in {perf_counter() - began:.2f} s")
        return dict(zip(watched.tensors, map(self._scale, watched.tensors, spreads), strict=True))

    @property
    def profile(self) -> IOptimizationProfile | None:
        """The profile whose optimum shapes the batches have."""
        return self.config.get_calibration_profile() or next(iter(profiles_in(self.config)), None)

    def _engine(self, watched: Watched) -> Engine:
        """The engine that computes the magnitudes, on one thread."""
        runtime = Runtime(state_of(self.network).channel.logger)
        plan = IHostMemory(compile_request(watched.request))
        return state_of(opened(runtime, read_source(plan, check_weights=False))).engine

    def _spreads(self, engine: Engine, watched: Watched) -> tuple[Sequence[Spread], int]:
        """The magnitudes in all batches, and the number of batches."""
        spreads: list[Spread] = []
        threads = min(MOST_AT_ONCE, self.config.num_threads or default_threads())
        batches = self._batches(watched)
        with ThreadPoolExecutor(threads) as pool:
            waiting = [_started(pool, engine, batch) for batch in islice(batches, 2 * threads)]
            many = 0
            while waiting:
                new = waiting.pop(0).result()
                spreads, many = [*map(joined, spreads, new)] if many else new, many + 1
                waiting += [_started(pool, engine, batch) for batch in islice(batches, 1)]
        if not many:
            raise _no_batch()
        return spreads, many

    def _batches(self, watched: Watched) -> Iterator[dict[str, Array]]:
        """Copies of the batches, since the calibrator may reuse its memory."""
        names = [binding.name for binding in watched.inputs]
        while True:
            batch = _ask(self.calibrator, "get_batch", [*names])
            if batch is None or (isinstance(batch, list | tuple) and not batch):
                return
            if not isinstance(batch, list | tuple):
                raise _unusable("get_batch", type_name(batch), "a list of addresses, or None")
            if len(batch) != len(names):
                got = f"{counted(len(batch), 'address', 'addresses')} for {', '.join(names)}"
                raise _unusable("get_batch", got, f"{len(names)}")
            yield {b.name: _copied(b, x) for b, x in zip(watched.inputs, batch, strict=True)}

    def _scale(self, tensor: TensorState, of: Spread) -> float:
        if not isfinite(of.most):
            got, do = f"{of.most} in the batches", "check the batches of the calibrator"
            raise ArgumentError("AR308", tensor.name, got, "finite numbers", do)
        most = self._range(of) if of.most else 1.0
        return float(np.float32((most or of.most) / MAX_CODE))

    def _range(self, of: Spread) -> float:
        match self.algorithm:
            case CalibrationAlgoType.MINMAX_CALIBRATION:
                return of.most
            case CalibrationAlgoType.LEGACY_CALIBRATION:
                inside, cutoff = self._share("get_quantile"), self._share("get_regression_cutoff")
                return min(of.quantile(inside), cutoff * of.most)
        return of.entropy()

    def _share(self, method: str) -> float:
        """A parameter of a legacy calibrator, 1 by default."""
        share = _ask(self.calibrator, method) if hasattr(self.calibrator, method) else 1.0
        if not isinstance(share, int | float | np.floating) or not 0 < share <= 1:
            raise _unusable(method, repr(share), "a number above 0 and at most 1")
        return float(share)


def _batch_size(result: object) -> int:
    """The batch size of a calibrator."""
    try:
        size = 0 if isinstance(result, bool) else index(result)  # type: ignore[arg-type]  # raises unless it is an int
    except TypeError:
        size = 0
    if not 1 <= size <= MOST_SAMPLES:
        raise _unusable("get_batch_size", repr(result), f"an int from 1 to {MOST_SAMPLES}")
    return size


def _copied(binding: Binding, memory: object) -> Array:
    """A copy of the batch of one input, from an address or an array."""
    bound = bind(binding, memory)  # type: ignore[arg-type]  # it rejects other objects
    dtype = numpy_dtype(binding.dtype)
    shape = tuple(d for d in binding.shape if isinstance(d, int))
    nbytes = prod(shape) * dtype.itemsize
    if bound.nbytes not in (None, nbytes):
        got = f"{bound.nbytes} bytes for {binding.name}"
        raise _unusable("get_batch", got, f"{nbytes} bytes for shape {shape} of {dtype.name}")
    copy = read_memory(bound.address, nbytes) if bound.address else None
    if copy is None:
        got = f"address {bound.address:#x} for {binding.name}"
        raise _unusable("get_batch", got, f"an address with {nbytes} accessible bytes")
    return copy.view(dtype).reshape(shape)


def _started(pool: ThreadPoolExecutor, engine: Engine, batch: Mapping[str, Array]) -> Future[list[Spread]]:
    return pool.submit(_shown, engine, batch)


def _shown(engine: Engine, batch: Mapping[str, Array]) -> list[Spread]:
    """The magnitudes of each tensor in one batch."""
    outputs = engine.infer(batch)  # including data-dependent sizes
    largest = outputs.pop("most", None)
    if largest is None:
        shown = (outputs[str(n)] for n in range(len(outputs)) if str(n) in outputs)
        return [_spread(some, float(np.abs(some).max(initial=0))) for some in shown]
    nothing = np.empty(0, np.float32)
    return [_spread(outputs.get(str(n), nothing), max(float(most), 0.0)) for n, most in enumerate(largest)]


def _spread(some: Array, most: float) -> Spread:
    """The scale of a tensor; a number that is not finite is kept."""
    if isfinite(most):
        return spread(some.astype(np.float32, copy=False), most)
    return replace(spread(np.zeros(1, np.float32), 0.0), most=inf)
