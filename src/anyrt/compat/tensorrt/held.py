"""Memory of tensors whose values are sizes lives as long as a context reads or writes it.

Torch-TensorRT's runtime in Python binds addresses of arrays that it lets go before the context is done with
them: of inputs before `infer_shapes` reads them, of outputs before the next `infer_shapes` writes them.

    sizes = x.cpu().numpy().copy()
    context.set_tensor_address("sizes", sizes.ctypes.data)

The array is found among the locals of the function that calls, and is held until the next address.
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
    """Have all contexts hold such arrays."""
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
    setattr(IExecutionContext, "set_tensor_address", set_tensor_address)  # noqa: B010  # mypy takes no methods


def owner(holders: Iterable[object], address: int) -> object:
    """The array, or tensor of PyTorch, that begins at an address, of these and what lists of them hold; None
    where none does."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", ())
    for x in chain.from_iterable(x if isinstance(x, list | tuple) else (x,) for x in holders):
        if isinstance(x, np.ndarray) and x.ctypes.data == address:
            return x
        if isinstance(x, tensor) and x.data_ptr() == address:
            return x
    return None
