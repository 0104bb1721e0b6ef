"""Wraps a function that returns values or raises: the wrapper returns a code and the values, as in
cuda-python.

>>> from enum import IntEnum
>>> Result = IntEnum("Result", {"SUCCESS": 0, "INVALID_VALUE": 1})
>>> @Answering({None: Result.SUCCESS, Fault.INVALID_VALUE: Result.INVALID_VALUE}, outputs=1)
... def half(x: int) -> int:
...     if x % 2:
...         raise DeviceFault(Fault.INVALID_VALUE)
...     return x // 2
>>> half(6), half(7)
((<Result.SUCCESS: 0>, 3), (<Result.INVALID_VALUE: 1>, None))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import wraps
from typing import ParamSpec, TypeAlias

from anyrt.compat.host.device import DeviceFault, Fault

P = ParamSpec("P")
# Any: the values after the code depend on the function; a program unpacks them.
Answer: TypeAlias = tuple[object, ...]


def forget(code: IntEnum) -> None:
    """Ignore a failure."""


@dataclass(frozen=True, slots=True)
class Answering:
    """A decorator. `codes` maps faults to codes, and None to the code of success; `note` is called with the
    code of each failure.

    The function returns `outputs` values; after a failure each of them is None.
    """

    codes: Mapping[Fault | None, IntEnum]
    outputs: int
    note: Callable[[IntEnum], None] = forget

    def __call__(self, call: Callable[P, object]) -> Callable[P, Answer]:
        """The function that a program calls."""

        @wraps(call)
        def answer(*args: P.args, **kwargs: P.kwargs) -> Answer:
            try:
                value = call(*args, **kwargs)
            except DeviceFault as fault:
                self.note(self.codes[fault.fault])
                return (self.codes[fault.fault], *[None] * self.outputs)
            values = value if isinstance(value, tuple) else (value,)
            return (self.codes[None], *values[: self.outputs])

        return answer


def words(name: str, prefix: str) -> bytes:
    """The name of a code as words.

    >>> words("CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_")
    b'invalid value'
    """
    return name.removeprefix(prefix).replace("_", " ").lower().encode()
