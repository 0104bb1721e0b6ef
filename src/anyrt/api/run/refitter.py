"""Replaces weights of a built engine: sets them by layer or by name, then replaces all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import ILogger
from anyrt.api.edge.managed import Managed
from anyrt.api.edge.oneline import cut, one_line, quoted
from anyrt.api.edge.quiet import Logged, channel_of, quiet, wrong_type
from anyrt.api.edge.setting import Setting
from anyrt.api.model.dims import floats
from anyrt.api.model.named import checked_name
from anyrt.api.model.state import state_of
from anyrt.api.model.tensor import span
from anyrt.api.model.weights import Weights, described_weights, to_weights
from anyrt.api.run.engine import ICudaEngine
from anyrt.api.run.source import mixer
from anyrt.compiler.recipe import Recipe, read_recipe
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, TensorLocation, WeightsRole
from anyrt.core.errors import RefitError
from anyrt.core.units import counted
from anyrt.plan.refit import WeightsRecord
from anyrt.runtime.refit import elements, exchange

LARGEST_CODE: Final = 127
MAX_LENGTH: Final = 256  # maximum number of names to compare for a suggestion, since comparisons are slow


@fold
class Refitter(Logged, Managed):
    """Replaces weights of an engine, whose contexts may exist and execute.

        refitter = trt.Refitter(engine, logger)
        refitter.set_weights("conv1", trt.WeightsRole.KERNEL, kernel)
        refitter.refit_cuda_engine()

    The refitter refers to weights that are set, without a copy, until others replace them or the refitter is
    deleted. A running inference completes with the weights with which it began.
    """

    __slots__ = ("_engine", "_locations", "_pending", "_recipe", "_settings")

    max_threads = Setting(int, 1, "Kept: maximum number of threads of a refit, which uses one.", low=1)
    weights_validation = Setting(
        bool,
        True,
        "Whether a refit checks the weights, which takes time. It fails if a number becomes infinite in the"
        " type of the engine or, for an engine built with REFIT_IDENTICAL, differs from that of the build.",
    )

    def __init__(self, engine: ICudaEngine, logger: ILogger) -> None:
        if not isinstance(engine, ICudaEngine):
            raise wrong_type("Refitter: engine", engine, "an ICudaEngine")
        self._settings: dict[str, object] = {}
        self._log_to(logger, channel_of(engine))
        self._engine = engine
        self._pending: dict[int, Weights] = {}
        self._locations: dict[int, TensorLocation] = {}
        self._recipe = self._read()

    @quiet(None)
    def _read(self) -> Recipe | None:
        return self._read_recipe()

    def _read_recipe(self) -> Recipe:
        loaded = state_of(self._engine).loaded
        return read_recipe(loaded.plan, lambda record: elements(loaded, record))

    @one_line
    def __repr__(self) -> str:
        count = counted(len(self._pending), "set of weights", "sets of weights")
        return f" of {quoted(self._engine.name)}: {count} pending"

    @property
    def _weights(self) -> tuple[WeightsRecord, ...]:
        return () if self._recipe is None else self._recipe.refit.weights

    @quiet(False)
    def set_weights(self, layer_name: str, role: WeightsRole, weights: Weights | NDArray[Any]) -> bool:
        """Set weights of a layer for the next refit: an array, or Weights, of the same count and type.

            refitter.set_weights("conv1", trt.WeightsRole.BIAS, np.zeros(64, np.float32))

        Also sets the weights of other layers that have the same name. Errors: AR842, no such layer with this
        role, or several; AR843, another count or type."""
        if not isinstance(layer_name, str):
            raise wrong_type("set_weights: layer_name", layer_name, "a name as str")
        if not isinstance(role, WeightsRole):
            raise wrong_type("set_weights: role", role, WeightsRole)
        array, place = to_weights(weights, "set_weights: weights"), (layer_name, role.name)
        numbers = [k for k, w in enumerate(self._weights) if place in w.places]
        if len(numbers) != 1:
            known = sorted({r for w in self._weights for n, r in w.places if n == layer_name})
            got = f"{len(numbers) or 'no'} layers of this name" if numbers else f"no {role.name} of it"
            wanted = f"one of the roles {', '.join(known)}" if known else "a refittable layer"
            near = "" if known else _near(layer_name, self.get_all()[0])
            raise RefitError("AR842", cut(layer_name) or "set_weights", got, wanted + near)
        self._check(numbers[0], array)
        self._pending[numbers[0]], self._locations[numbers[0]] = array, TensorLocation.HOST
        return True

    @quiet(False)
    def set_named_weights(
        self, name: str, weights: Weights | NDArray[Any], location: TensorLocation = TensorLocation.HOST
    ) -> bool:
        """Set weights by their name, from `INetworkDefinition.set_weights_name` or from a model.

            refitter.set_named_weights("w1", np.ones(9, np.float32))

        Weights without a name have that of their layer and role: "conv1 KERNEL". `location` has no effect,
        since all memory is host memory. Errors: AR842, no such name, or a default name that several layers
        share; AR843, another count or type."""
        array = to_weights(weights, "set_named_weights: weights")
        if not isinstance(location, TensorLocation):
            raise wrong_type("set_named_weights: location", location, TensorLocation)
        numbers = self._numbers(name)
        for number in numbers:
            self._check(number, array)
        for number in numbers:
            self._pending[number], self._locations[number] = array, location
        return True

    def _numbers(self, name: str) -> list[int]:
        """The weights of a name; there are several if a model calls a function twice."""
        checked_name(name, "weights name")
        numbers = [k for k, record in enumerate(self._weights) if record.name == name]
        if len(numbers) > 1 and not all(self._weights[k].user_name for k in numbers):
            got, do = f"{len(numbers)} layers with such weights", "use unique layer names"
            raise RefitError("AR842", cut(name), got, "one", do)
        if numbers:
            return numbers
        names = [w.name for w in self._weights if w.name]
        wanted = (
            f"one of {', '.join(names[:8])}{', …' * (len(names) > 8)}"
            if names
            else "refittable weights with a name"
        )
        near = _near(name, names) if len(names) > 8 else ""
        raise RefitError("AR842", cut(name), "no weights of this name", wanted + near)

    def _check(self, number: int, weights: Weights) -> None:
        record = self._weights[number]
        if weights.size != record.count or weights.dtype is not record.dtype:
            got = f"{weights.size} of {short_name(weights.dtype)}"
            raise RefitError("AR843", record.title, got, f"{record.count} of {short_name(record.dtype)}")

    @quiet(False)
    def refit_cuda_engine(self) -> bool:
        """Replace the weights in the engine with all weights that were set. Returns True; on an error, no
        weights change.

        Errors: AR844, missing weights, see `get_missing`; AR841, the engine is not refittable; AR843 and
        AR845, see `weights_validation`."""
        recipe, loaded = self._recipe or self._read_recipe(), state_of(self._engine).loaded
        arrays, check = {k: w.elements() for k, w in self._pending.items()}, bool(self.weights_validation)
        with loaded.held.lock:
            lacks = loaded.held.now.lacks
            changed = recipe.make(arrays, lacks, lambda record: elements(loaded, record), validate=check)
            others = exchange(loaded, changed, mixer if check and not recipe.refit.is_free else None)
        if others:
            raise recipe.other(others)
        return True

    def refit_cuda_engine_async(self, stream_handle: int) -> bool:
        """The same; the refit is complete when this returns."""
        if not isinstance(stream_handle, int):
            raise wrong_type("refit_cuda_engine_async", stream_handle, "the handle of a stream as int")
        return self.refit_cuda_engine()

    def _missing(self) -> list[int]:
        lacks = state_of(self._engine).loaded.held.now.lacks
        return [] if self._recipe is None else self._recipe.missing(self._pending, lacks)

    def get_missing(self) -> tuple[list[str], list[WeightsRole]]:
        """The layers and roles of weights that a refit needs in addition to those that are set.

        These are weights that the engine combined with them into one constant, and all stripped weights."""
        return self._places(self._missing())

    def get_missing_weights(self) -> list[str]:
        """The names of weights that a refit needs in addition to those that are set."""
        return self._names(self._missing())

    def get_all(self) -> tuple[list[str], list[WeightsRole]]:
        """The layers and roles of all refittable weights."""
        return self._places(range(len(self._weights)))

    def get_all_weights(self) -> list[str]:
        """The names of all refittable weights."""
        return self._names(range(len(self._weights)))

    def _places(self, numbers: Iterable[int]) -> tuple[list[str], list[WeightsRole]]:
        places = [p for k in numbers if self._weights[k].range_of is None for p in self._weights[k].places]
        return [layer for layer, _ in places], [WeightsRole.__members__[role] for _, role in places]

    def _names(self, numbers: Iterable[int]) -> list[str]:
        return [self._weights[k].name for k in numbers if self._weights[k].name]

    @quiet(None)
    def _weights_set(self, name: str) -> Weights | None:
        return self._pending.get(self._numbers(name)[0])

    def get_named_weights(self, weights_name: str) -> Weights:
        """The weights that are set for a name; empty if none are set, or with AR842 for an unknown name."""
        weights = self._weights_set(weights_name)
        return Weights() if weights is None else weights

    @quiet(TensorLocation.HOST)
    def get_weights_location(self, weights_name: str) -> TensorLocation:
        """The location of the weights that are set for a name; HOST if none are set."""
        return self._locations.get(self._numbers(weights_name)[0], TensorLocation.HOST)

    @quiet(False)
    def unset_named_weights(self, weights_name: str) -> bool:
        """Remove the weights that are set for a name; False if none are set."""
        removed = [self._pending.pop(number, None) for number in self._numbers(weights_name)]
        for number in self._numbers(weights_name):
            self._locations.pop(number, None)
        return any(weights is not None for weights in removed)

    @quiet(None)
    def _prototype(self, name: str) -> Weights | None:
        record = self._weights[self._numbers(name)[0]]
        return described_weights(record.dtype, record.count)

    def get_weights_prototype(self, weights_name: str) -> Weights:
        """The type and count of the weights of a name, without memory; count 0 for an unknown name."""
        prototype = self._prototype(weights_name)
        return Weights(DataType.FLOAT) if prototype is None else prototype

    def _ranges(self) -> dict[str, int]:
        """The tensors whose dynamic ranges the engine uses, and their numbers among the weights."""
        used = frozenset[int]() if self._recipe is None else self._recipe.used
        return {w.range_of: k for k, w in enumerate(self._weights) if w.range_of is not None and k in used}

    def _range_of(self, tensor_name: str) -> int:
        checked_name(tensor_name, "tensor_name")
        ranges = self._ranges()
        if tensor_name not in ranges:
            wanted = f"one of {', '.join([*ranges][:8])}" if ranges else "an int8 engine built with REFIT"
            raise RefitError("AR842", cut(tensor_name), "no dynamic range of this name", wanted)
        return ranges[tensor_name]

    def get_tensors_with_dynamic_range(self) -> list[str]:
        """The tensors with refittable dynamic ranges: those that int8 kernels of an engine built with REFIT
        use."""
        return [*self._ranges()]

    @quiet(False)
    def set_dynamic_range(self, tensor_name: str, range: list[float]) -> bool:
        """Set the dynamic range (min, max) of a tensor for the next refit.

            refitter.set_dynamic_range("x", [-2.0, 2.0])

        Errors: AR842, no such tensor, see `get_tensors_with_dynamic_range`; AR308, an invalid range."""
        bounds = floats(range, "set_dynamic_range: range")
        if len(bounds) != 2:
            raise wrong_type("set_dynamic_range: range", range, "a pair (min, max)")
        low, high = span(bounds, checked_name(tensor_name, "tensor_name"))
        step = np.full(1, max(abs(low), abs(high)) / LARGEST_CODE, np.float32)
        self._pending[self._range_of(tensor_name)] = Weights(step)
        return True

    @quiet((0.0, 0.0))
    def get_dynamic_range(self, tensor_name: str) -> tuple[float, float]:
        """The range (min, max) that is set for a tensor, otherwise that of the engine, which is symmetric."""
        number = self._range_of(tensor_name)
        if number in self._pending:
            most = self._pending[number].elements()
        else:
            assert self._recipe is not None, "it has ranges"
            most = self._recipe.range_now(
                number, lambda record: elements(state_of(self._engine).loaded, record)
            )
        largest = float(np.float32(most.item()) * np.float32(LARGEST_CODE))
        return -largest, largest


def _near(name: str, known: list[str]) -> str:
    """The suggestion of the most similar name, for a message."""
    near = get_close_matches(name[:MAX_LENGTH], known, 1)
    return f"; the nearest is {near[0]!r}" if near else ""
