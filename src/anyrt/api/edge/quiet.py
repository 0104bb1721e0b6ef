"""The conversion of AnyRT's exceptions to TensorRT's quiet results.

Below this layer an error of the user is an `AnyrtError`. Here it becomes a message to the logger, a report to
the error recorder and `None` or `False`; under `anyrt.strict()` it stays an exception. Errors that TensorRT's
Python layer raises (a wrong type, an invalid index) belong to the three classes below and propagate in either
mode.
"""

from __future__ import annotations

import errno
import functools
import inspect
import operator
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.hints import article, hint
from anyrt.api.edge.interfaces import IErrorRecorder, ILogger, call_user
from anyrt.core.enums import Severity
from anyrt.core.errors import AnyrtError, ArgumentError, CompileError, PluginError, ResourceError
from anyrt.core.flags import is_strict
from anyrt.core.trt_enum import TrtEnum
from anyrt.plan.room import LIBRARY_ROOM, has_room

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F")
PACKAGE = str(Path(__file__).parents[2])
COMMANDS = str(Path(PACKAGE, "cli"))
LINE = re.compile(r":\d+\)")


class WrongType(TypeError):
    """An argument of a wrong type, for which TensorRT's Python layer raises TypeError."""


class WrongValue(ValueError):
    """An invalid value, for which TensorRT's Python layer raises ValueError."""


class Refused(RuntimeError):
    """A call for which TensorRT raises RuntimeError."""


class OfProgram(Exception):  # not an error itself: `error` is raised
    """An exception of user code, `error`, which the calling API function raises unchanged."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def wrong_type(where: str, got: object, wanted: str | type[TrtEnum], do: str = "") -> WrongType:
    """The TypeError for the type of `got`; `wanted`: the expected type, as text or as an enum."""
    if isinstance(wanted, str):
        return WrongType(ArgumentError("AR311", where, type_name(got), wanted, do or _make_one(got)))
    text = article(wanted.__name__)
    return WrongType(ArgumentError("AR311", where, type_name(got), text, do or hint(got, wanted)))


def _make_one(got: object) -> str:
    return f"create an object: {got.__name__}(...)" if isinstance(got, type) else ""


def integer(x: object, where: str) -> int:
    """`x` as an int; TypeError if that is not possible."""
    try:
        if not is_masked(x):
            return operator.index(x)  # type: ignore[arg-type]  # raises unless it is an int
    except TypeError:
        pass
    raise wrong_type(where, x, "an int")


def number(x: object, where: str) -> float:
    """`x` as a float; TypeError if it is not a number, such as text."""
    try:
        if not isinstance(x, str | bytes) and not is_masked(x):
            return float(x)  # type: ignore[arg-type]  # raises unless it is a number
    except (TypeError, ValueError, OverflowError):
        pass
    raise wrong_type(where, x, "a float")


def is_masked(x: object) -> bool:
    """Whether `x` is a masked array or an element of one; masked elements have arbitrary values."""
    return isinstance(x, np.ndarray) and isinstance(x, np.ma.MaskedArray)


def boolean(x: object, where: str) -> bool:
    """`x` as a bool; TypeError if it is neither bool nor int."""
    if isinstance(x, bool | int | np.bool_):
        return bool(x)
    raise wrong_type(where, x, "a bool")


def nothing() -> Any:  # Any: the type of a getter omits None, see `quiet`
    """None, for a getter with an argument out of range."""


def type_name(x: object) -> str:
    """The type of `x` in a message."""
    if isinstance(x, type):
        return f"the class {x.__name__}"
    return "None" if x is None else type(x).__name__


def user_line() -> str:
    """The file and line of the nearest caller outside this package; "" if that is a command of AnyRT."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (place := _place_of(frame.f_code.co_filename)) is not None:
        if place:
            return ""
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


@functools.lru_cache(maxsize=4096)
def _place_of(file: str) -> bool | None:
    """Whether a file of this package belongs to its commands; None for files outside the package."""
    return file.startswith(COMMANDS) if file.startswith(PACKAGE) else None


def placed(error: AnyrtError) -> AnyrtError:
    """`error` with the line of the user's call, unless it has a line already."""
    line = "" if LINE.search(error.where) else user_line()
    return error.at(f"{error.where} ({line})".lstrip()) if line else error


class Channel:
    """The receivers of an object's errors: its logger, and its error recorder or that of its parent."""

    def __init__(self, logger: ILogger, parent: Channel | None = None) -> None:
        self.logger = logger
        self.parent = parent
        self.recorder: IErrorRecorder | None = None
        self._logged: set[str] = set()

    def log(self, severity: Severity, text: str) -> None:
        """Pass a message to the logger; an exception of the logger is printed and ignored."""
        call_user(None, self.logger.log, severity, text)

    def once(self, severity: Severity, text: str) -> None:
        """Log a message once per builder or runtime, with all objects that it created."""
        holder = self
        while holder.parent is not None:
            holder = holder.parent
        if text not in holder._logged:
            holder._logged.add(text)
            self.log(severity, text)

    def fail(self, error: AnyrtError, severity: Severity = Severity.ERROR) -> None:
        """Log `error`, report it to the nearest error recorder; under strict, raise it."""
        error = placed(error)
        if isinstance(error, PluginError) and error.__cause__ is not None:
            self.log(severity, "".join(traceback.format_exception(error.__cause__)).rstrip())
        self.log(severity, str(error))
        holder: Channel | None = self
        while holder is not None and holder.recorder is None:
            holder = holder.parent
        if holder is not None and holder.recorder is not None:
            call_user(False, holder.recorder.report_error, error.entry.trt, str(error))
        if is_strict():
            raise error

    def crash(self, where: str, error: Exception) -> None:
        """Report an internal error of AnyRT, and continue; under strict, raise it."""
        self.fail(self.fault(where, error), Severity.INTERNAL_ERROR)

    def fault(self, where: str, error: Exception) -> CompileError:
        """The report of an internal error of AnyRT; under strict, raise it."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
        do = "please report it with the traceback, which anyrt.strict() shows, and the output of `anyrt info`"
        if is_strict():
            raise error
        return CompileError("AR807", where, f"an internal error in AnyRT, {text}", do=do)


class HasChannel(Protocol):
    """An object with a channel for its errors."""

    @property
    def _channel(self) -> Channel: ...


def channel_of(x: HasChannel) -> Channel:
    """The channel of an object's errors."""
    return x._channel


S = TypeVar("S", bound=HasChannel)


def _is_of_the_call(error: TypeError) -> bool:
    """Whether the arguments do not match the parameters: then no line of the method was executed."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def _lacks_memory(error: Exception) -> bool:
    """Whether Python or the system is out of memory, also while a module or LLVM is loaded."""
    if isinstance(error, OSError) and error.errno is None:  # llvmlite raises it for any error of the loader
        return not has_room(LIBRARY_ROOM)
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


@overload
def quiet(fallback: None) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]: ...
@overload
def quiet(fallback: F) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R | F]]: ...
def quiet(fallback: F) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R | F]]:
    """A decorator: the method returns `fallback` instead of raising an `AnyrtError`.

    Types omit None, as in TensorRT: a program that does not check for it fails at the next line anyway."""

    def wrap(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R | F]:
        name = method.__name__.lstrip("_")  # the name that the user called

        @functools.wraps(method)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R | F:
            try:
                return method(self, *args, **kwargs)
            except (WrongType, WrongValue, Refused):
                raise
            except OfProgram as own:
                raise own.error from own.error.__cause__
            except AnyrtError as error:
                self._channel.fail(error)
            except Exception as error:  # the contract: no exception leaves this layer
                if isinstance(error, TypeError) and _is_of_the_call(error):
                    raise
                if _lacks_memory(error):
                    lack = ResourceError("AR802", name, str(error) or "no memory", "memory for this call")
                    self._channel.fail(lack)
                else:
                    self._channel.crash(name, error)
            return fallback

        if method.__doc__ is not None:
            call.__doc__ = f"{inspect.cleandoc(method.__doc__)}\n\n{_failure(method, fallback)}"
        return call

    return wrap


def _failure(method: Callable[..., object], fallback: object) -> str:
    """The sentence on errors for a docstring."""
    if method.__annotations__.get("return") == "None":
        answers = "Changes nothing"
    else:
        answers = f"Returns {fallback if isinstance(fallback, TrtEnum) else repr(fallback)}"
    return f"{answers} on an error, and logs the error with its code; under anyrt.strict(), raises it."


class Reporting(Fixed):
    """Base of objects with an `error_recorder`."""

    __slots__ = ("__weakref__", "_channel")

    _channel: Channel

    @property
    def error_recorder(self) -> IErrorRecorder | None:
        """Receives every error of this object; if None, the recorder of its creator receives them."""
        return self._channel.recorder

    @error_recorder.setter
    def error_recorder(self, recorder: IErrorRecorder | None) -> None:
        if recorder is not None and not isinstance(recorder, IErrorRecorder):
            raise wrong_type("error_recorder", recorder, "an IErrorRecorder or None")
        self._channel.recorder = recorder


class Logged(Reporting):
    """Base of objects that a program creates with a logger."""

    __slots__ = ()

    def _log_to(self, logger: ILogger, parent: Channel | None = None) -> None:
        """Set the logger."""
        kind = type(self).__name__
        if not isinstance(logger, ILogger):
            raise wrong_type(f"{kind}: logger", logger, "an ILogger", "create one: trt.Logger()")
        self._channel = Channel(logger, parent)

    @property
    def logger(self) -> ILogger:
        """The logger of the object."""
        return self._channel.logger
