"""Debug tensors of a context: memory for those that are no outputs, and showing them after a run."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from anyrt.api.dims import Dims
from anyrt.api.interfaces import IDebugListener, call_user
from anyrt.core.enums import TensorLocation
from anyrt.core.errors import BindingError
from anyrt.runtime.context import Context


class DebugTensors:
    """The debug tensors of one context: switched on or off by name."""

    def __init__(self, context: Context, debug: Iterable[str], hidden: Iterable[str]) -> None:
        self._context = context
        self._hidden = tuple(hidden)
        self._memory: dict[str, NDArray[np.uint8]] = {}
        self.states = dict.fromkeys(debug, False)
        self.listener: IDebugListener | None = None

    def switch(self, name: str, on: bool) -> None:
        """Show a tensor from now on, or no longer."""
        if name not in self.states:
            raise BindingError("AR706", name, "a tensor that is no debug tensor", "a debug tensor")
        self.states[name] = bool(on)

    def prepare(self) -> None:
        """Give memory to the tensors that the user does not know of."""
        if not self._hidden or self._context.missing():
            return
        resolved = self._context.resolve()
        for name in self._hidden:
            needed = max(1, resolved.nbytes[self._context.loaded.find(name)])
            if name not in self._memory or self._memory[name].nbytes < needed:
                self._memory[name] = np.empty(needed, np.uint8)
                self._context.set_address(name, int(self._memory[name].ctypes.data))

    def show(self, stream: int) -> None:
        """Let the listener see what is switched on."""
        listener = self.listener
        for name in [n for n, on in self.states.items() if on and listener is not None]:
            binding = self._context.loaded.plan.bindings[self._context.loaded.find(name)]
            shape, address = Dims(self._context.shape(name)), self._context.bound_address(name)
            assert listener is not None, "nothing is shown without a listener"
            look = listener.process_debug_tensor
            kept = call_user(True, look, address, TensorLocation.HOST, binding.dtype, shape, name, stream)
            if kept is False:
                raise BindingError("AR709", name, "False from the debug listener", "True")
