"""Arrays in, arrays out: the fastest use of a context, for one thread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from anyrt.core.dtype import is_packed, numpy_dtype, pack4, storage_bytes, unpack4
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import BindingError, ProfileError
from anyrt.core.formats import misfit
from anyrt.plan import abi
from anyrt.plan.plan import Binding
from anyrt.runtime.arrays import Array, DLPack, address_of, import_dlpack, refuse_masked
from anyrt.runtime.context import Context
from anyrt.runtime.formats import from_memory, memory_shape, to_memory
from anyrt.runtime.fresh import Fresh
from anyrt.runtime.shapes import Shape, actual_shape

_PLAIN: Final = 0x101  # NumPy's flags C_CONTIGUOUS and ALIGNED


class DirectCall:
    """Calls a context with arrays; everything derived from their shapes is kept while they stay the same."""

    def __init__(self, context: Context) -> None:
        self._context, self._words = context, context.words
        bindings = context.loaded.plan.bindings
        self._inputs = [
            (b.name, abi.FIRST_BINDING + i, numpy_dtype(b.dtype), _is_plain(b), b)
            for i, b in enumerate(bindings)
            if b.is_input
        ]
        self._results = [(abi.FIRST_BINDING + i, b) for i, b in enumerate(bindings) if not b.is_input]
        self._shapes: list[Shape] = []
        self._outputs: list[tuple[str, int, Shape, np.dtype[np.generic]]] = []
        # Outputs are new arrays: the update of a cache is written to a copy of it.
        sources = context.loaded.sources
        self._updates = {bindings[y].name: (abi.FIRST_BINDING + x, x) for y, x in sources.items()}
        self._packed: list[tuple[str, DataType, Shape]] = []
        self._turned: list[tuple[Binding, Shape]] = []  # of other formats than LINEAR
        self._data_dependent: dict[str, Binding] = {}
        self._fresh = Fresh()
        for index in context.loaded.late:
            context.set_allocator(bindings[index].name, self._fresh)

    def __call__(self, arrays: Mapping[str, object], ranks: object = None) -> dict[str, Array]:
        """The outputs for `arrays`, which has one array for each input; `ranks` is the communicator of its
        exchanges."""
        if self._context.caller is not None:
            self._context.caller.seat.take(ranks)
        words = self._words
        shapes: list[Shape] = []
        held = []  # converted copies must live until the inference is over
        for name, word, dtype, plain, binding in self._inputs:
            array = arrays.get(name)
            if (
                type(array) is not np.ndarray
                or array.dtype is not dtype
                or array.flags.num & _PLAIN != _PLAIN
            ):
                array = _convert(binding, array, dtype)
            shapes.append(array.shape)
            if not plain:
                array = _laid_out(binding, array)
            words[word] = address_of(array)
            held.append(array)
        if len(arrays) != len(held):
            raise self._too_many(arrays)
        if shapes != self._shapes or not self._context.is_ready:
            self._fit(shapes)
        outputs: dict[str, Array] = {}
        for name, word, shape, dtype in self._outputs:
            if name in self._updates:
                source, position = self._updates[name]
                array = held[position].reshape(shape).copy()
                words[source] = address_of(array)
            else:
                array = np.empty(shape, dtype)
            words[word] = address_of(array)
            outputs[name] = array
        self._context.execute()
        for name, memory in self._fresh.arrays.items():
            dtype = outputs[name].dtype
            outputs[name] = memory[: memory.size // dtype.itemsize * dtype.itemsize].view(dtype)
        self._fresh.arrays.clear()
        self._show(outputs)
        return outputs

    def _show(self, outputs: dict[str, Array]) -> None:
        """Arrays on the memory of the outputs."""
        if self._data_dependent:
            self._cut(outputs)
        for name, kind, shape in self._packed:
            outputs[name] = unpack4(outputs[name], math.prod(shape), kind).reshape(shape)
        for binding, shape in self._turned:
            outputs[binding.name] = from_memory(binding, outputs[binding.name], shape)

    def _cut(self, outputs: dict[str, Array]) -> None:
        """Outputs with data-dependent sizes, whose memory has their maximum size."""
        plan, counts = self._context.loaded.plan, self._context.loaded.counts
        sizes = self._context.sizing.sizes()
        sizes |= {name: int(outputs[plan.bindings[k].name]) for name, k in counts.items()}
        self._packed = [p for p in self._packed if p[0] not in self._data_dependent]
        self._turned = [t for t in self._turned if t[0].name not in self._data_dependent]
        for name, binding in self._data_dependent.items():
            shape, room = actual_shape(binding, sizes), outputs[name]
            if is_packed(binding.dtype):
                self._packed.append((name, binding.dtype, shape))
                continue
            self._turned += [] if _is_plain(binding) else [(binding, shape)]
            memory = memory_shape(binding, shape)
            used = room[: math.prod(memory)].reshape(memory)
            outputs[name] = used if 2 * used.size >= room.size else used.copy()

    def _fit(self, shapes: Sequence[Shape]) -> None:
        context, self._shapes = self._context, []
        for (name, word, *_), _shape in zip(self._inputs, shapes, strict=True):
            if context.loaded.position[name] in context.loaded.value_inputs:
                context.set_address(name, self._words[word])
        self._set_shapes(shapes)
        resolved = context.sizing.resolve()
        context.fit(resolved)
        every = resolved.shapes
        self._outputs, self._packed, self._turned, self._data_dependent = [], [], [], {}
        for word, binding in self._results:
            shape = every[word - abi.FIRST_BINDING]
            if binding.is_data_dependent:
                self._data_dependent[binding.name] = binding
                dtype = np.dtype(np.uint8) if is_packed(binding.dtype) else numpy_dtype(binding.dtype)
                room = resolved.nbytes[word - abi.FIRST_BINDING] // dtype.itemsize
                self._outputs.append((binding.name, word, (room,), dtype))
            elif is_packed(binding.dtype):
                self._packed.append((binding.name, binding.dtype, shape))
                size = storage_bytes(binding.dtype, math.prod(shape))
                self._outputs.append((binding.name, word, (size,), np.dtype(np.uint8)))
            else:
                self._turned += [(binding, shape)] if not _is_plain(binding) else []
                memory = memory_shape(binding, shape)
                self._outputs.append((binding.name, word, memory, numpy_dtype(binding.dtype)))
        self._shapes, context.is_ready = list(shapes), context.can_stay_ready

    def _set_shapes(self, shapes: Sequence[Shape]) -> None:
        """By the current profile, otherwise by the first that allows them."""
        context = self._context
        others = (p for p in range(len(context.loaded.plan.profiles)) if p != context.sizing.profile)
        while True:
            try:
                for (name, *_), shape in zip(self._inputs, shapes, strict=True):
                    context.set_shape(name, shape)
            except ProfileError:
                profile = next(others, None)
                if profile is None:
                    raise
                context.set_profile(profile)
            else:
                return

    def _too_many(self, arrays: Mapping[str, object]) -> BindingError:
        known = [name for name, *_ in self._inputs]
        extra = ", ".join(repr(n) for n in arrays if n not in known)
        return BindingError(
            "AR706",
            "engine",
            got=extra,
            wanted=f"the inputs {', '.join(known)}",
            do="pass engine.run(name=array)",
        )


def _is_plain(binding: Binding) -> bool:
    """Whether the array of a tensor is its memory."""
    return binding.format is TensorFormat.LINEAR and not is_packed(binding.dtype)


def _laid_out(binding: Binding, array: Array) -> Array:
    """`array` in the form of an input's memory, if it is valid; errors are reported later."""
    if is_packed(binding.dtype):
        return pack4(array)
    fits = len(array.shape) == len(binding.shape) and not misfit(binding.format, binding.dtype, array.shape)
    return to_memory(binding, array) if fits else array


def _convert(binding: Binding, value: object, dtype: np.dtype[np.generic]) -> Array:
    """`value` as a flat aligned array; its type is not changed, since that would hide a mistake."""
    if value is None:
        raise BindingError(
            "AR701",
            binding.name,
            got="no array",
            wanted="an array for each input",
            do=f"pass engine.run({binding.name}=array)",
        )
    if isinstance(value, np.ndarray):
        refuse_masked(binding, value)
    elif isinstance(value, DLPack):
        value = import_dlpack(binding, value)
    else:
        try:
            value = np.asarray(value, dtype)
        except (TypeError, ValueError, OverflowError) as error:
            got = f"{type(value).__name__} that makes no array ({error})"
            do = f"pass an array of {dtype.name}"
            raise BindingError("AR703", binding.name, got=got, wanted=dtype.name, do=do) from None
    if value.dtype != dtype:
        do = f"convert it with astype({dtype.name!r})"
        raise BindingError("AR703", binding.name, got=f"an array of {value.dtype}", wanted=dtype.name, do=do)
    return np.require(value, dtype, ["C", "A"])
