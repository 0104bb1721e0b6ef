"""Keeps memory of shape tensors alive while a context reads or writes it.

The Python runtime of Torch-TensorRT binds addresses of arrays and drops the arrays too early: inputs before
`infer_shapes` reads them, outputs before the next `infer_shapes` writes them.

    sizes = x.cpu().numpy().copy()
    context.set_tensor_address("sizes", sizes.ctypes.data)

The array is searched among the locals of the caller, and kept until the next address is set.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from itertools import chain
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from anyrt.api.run.context import IExecutionContext
from anyrt.runtime.arrays import Bindable

_HELD: Final[WeakKeyDictionary[IExecutionContext, dict[str, object]]] = WeakKeyDictionary()


def offer() -> None:
    """Make all contexts keep such arrays."""
    usual = IExecutionContext.set_tensor_address
    if usual.__module__ == __name__:
        return

    @functools.wraps(usual)
    def set_tensor_address(self: IExecutionContext, name: str, memory: Bindable) -> bool:
        done = usual(self, name, memory)
        if done and type(memory) is int and self.engine.is_shape_inference_io(name):
            _HELD.setdefault(self, {})[name] = owner(sys._getframe(1).f_locals.values(), memory)
        return done

    set_tensor_address.__module__ = __name__
    setattr(IExecutionContext, "set_tensor_address", set_tensor_address)  # noqa: B010  # mypy forbids it


def owner(holders: Iterable[object], address: int) -> object:
    """The array or PyTorch tensor that begins at an address, among `holders` and the elements of lists in
    them; None if there is none."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", ())
    for x in chain.from_iterable(x if isinstance(x, list | tuple) else (x,) for x in holders):
        if isinstance(x, np.ndarray) and x.ctypes.data == address:
            return x
        if isinstance(x, tensor) and x.data_ptr() == address:
            return x
    return None
