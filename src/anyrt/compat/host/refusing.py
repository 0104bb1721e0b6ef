"""Functions of CUDA that need GPU code: each raises an error with its name.

>>> refusing("cuLaunchKernel")()
Traceback (most recent call last):
anyrt.core.errors.NotSupportedError: [AR901] cuLaunchKernel: got code for a GPU, wanted ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from anyrt.core.errors import NotSupportedError


def refusal(name: str) -> NotSupportedError:
    """The error of a function of this name."""
    do = "use NumPy or ctypes on the same memory, or a plug-in"
    return NotSupportedError("AR901", name, "code for a GPU", "code for the CPU", do)


def refusing(name: str) -> Callable[..., NoReturn]:
    """A function that raises `refusal(name)`."""

    def refused(*args: object, **kwargs: object) -> NoReturn:
        """Raises AR901: this needs a GPU."""
        raise refusal(name)

    refused.__name__ = refused.__qualname__ = name
    return refused
