"""Calls of user code: an exception becomes an error that names plug-in, layer and method.

The exception is the error's cause, so that logging the error includes the traceback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyrt.api.edge.interfaces import tried
from anyrt.core.errors import AnyrtError, NotSupportedError, PluginError


def call_method(where: str, owner: object, method: str, *args: object) -> Any:  # Any: callers check it
    """The result of `owner.method(*args)`; PluginError AR824 for an exception, at `where`."""
    name = f"{type(owner).__name__}.{method}"
    return call_function(where, name, lambda: getattr(owner, method)(*args))


def call_function(where: str, name: str, callback: Callable[[], object]) -> Any:  # Any: as above
    """The result of `callback`, user code; PluginError AR824 for an exception. `name`: of the function, for
    messages."""
    result, error = tried(callback)
    if error is not None:
        raise failure(where, name, error) from error
    return result


def failure(where: str, name: str, error: BaseException) -> AnyrtError:
    """The error for an exception of a call. An error that names its call already keeps its text."""
    if isinstance(error, PluginError | NotSupportedError):
        return error.at(f"{where}: {error.where}")
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return PluginError("AR824", where, f"{text}, from {name}", "no exception")
