"""Debug tensors of a context: their memory, unless they are outputs, and the calls of the listener."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from anyrt.api.building.marks import Marks
from anyrt.api.edge.interfaces import IDebugListener, call_user
from anyrt.api.model.dims import Dims
from anyrt.core.dtype import storage_bytes
from anyrt.core.enums import TensorLocation
from anyrt.core.errors import BindingError
from anyrt.core.lent import lending
from anyrt.runtime.context import Context
from anyrt.runtime.fresh import Fresh


class DebugTensors:
    """The debug tensors of one context, which can be enabled by name."""

    def __init__(self, context: Context, marks: Marks) -> None:
        self._context = context
        hidden = [n for n in marks.hidden if not context.bound_address(n)]
        late = [n for n in hidden if context.loaded.find(n) in context.loaded.late]
        for name in late:
            context.set_allocator(name, Fresh())
        self._hidden = tuple(n for n in hidden if n not in late)
        self._unfused, self._again = marks.unfused, marks.again
        self.any = bool(marks.debug or marks.unfused)
        self._memory: dict[str, NDArray[np.uint8]] = {}
        self.states = dict.fromkeys(marks.debug, False)
        self.listener: IDebugListener | None = None

    def switch(self, name: str, on: bool) -> None:
        """Enable or disable a debug tensor."""
        if name not in self.states:
            raise BindingError(
                "AR706",
                name,
                "a tensor that is not a debug tensor",
                "a debug tensor",
                "call network.mark_debug(tensor) before the build",
            )
        self.states[name] = on

    def prepare(self) -> None:
        """Allocate memory for the debug tensors that are not outputs."""
        if not self._hidden or self._context.sizing.missing():
            return
        resolved = self._context.sizing.resolve()
        for name in self._hidden:
            needed = max(1, resolved.nbytes[self._context.loaded.find(name)])
            if name not in self._memory or self._memory[name].nbytes < needed:
                self._memory[name] = np.empty(needed, np.uint8)
                self._context.set_address(name, int(self._memory[name].ctypes.data))

    def show(self, stream: int, unfused: bool) -> None:
        """Pass the enabled tensors to the listener, and with `unfused` all that kernels store anyway."""
        listener = self.listener
        names = [n for n, on in self.states.items() if on] + (list(self._unfused) if unfused else [])
        for name in names if listener is not None else ():
            binding = self._context.loaded.plan.bindings[self._context.loaded.find(name)]
            assert listener is not None, "without a listener no tensor is enabled"
            look, shape = listener.process_debug_tensor, self._context.sizing.of(name)
            axes = self._again.get(name, 0)
            times, shape = prod(shape[:axes]), shape[axes:]
            first, size = self._context.bound_address(name), storage_bytes(binding.dtype, prod(shape))
            # The location that the engine reports: programs choose the way to copy by it.
            place = TensorLocation.HOST if binding.is_host else TensorLocation.DEVICE
            details = (place, binding.dtype, Dims(shape), name, stream)
            calls = [(first + k * size, *details) for k in range(times)]
            if any(call_user(True, lending, look, *each) is False for each in calls):
                raise BindingError(
                    "AR709",
                    name,
                    "the result False from the debug listener",
                    "True",
                    "return True from process_debug_tensor",
                )
