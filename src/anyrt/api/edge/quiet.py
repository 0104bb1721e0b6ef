"""The conversion of AnyRT's exceptions to TensorRT's quiet results.

Below this layer a mistake is an `AnyrtError`. Here it becomes a message to the logger, a report to the error
recorder and `None` or `False`; under `anyrt.strict()` it stays an exception. What TensorRT's own Python layer
raises (a wrong type, a bad index) is one of the three classes below and passes through in either mode.
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
    """An argument that the Python layer refuses at once."""


class WrongValue(ValueError):
    """A value that the Python layer refuses at once."""


class Refused(RuntimeError):
    """A call for which TensorRT raises RuntimeError."""


class OfProgram(Exception):  # it ends no call by itself: `error` does
    """An exception of user code, `error`, which the calling API function raises unchanged."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def wrong_type(where: str, got: object, wanted: str | type[TrtEnum], do: str = "") -> WrongType:
    """The TypeError for `got`, by its type; `wanted`: the expected type, as text or as an enum."""
    if isinstance(wanted, str):
        return WrongType(ArgumentError("AR311", where, type_name(got), wanted, do or _make_one(got)))
    text = article(wanted.__name__)
    return WrongType(ArgumentError("AR311", where, type_name(got), text, do or hint(got, wanted)))


def _make_one(got: object) -> str:
    return f"make one: {got.__name__}(...)" if isinstance(got, type) else ""


def integer(x: object, where: str) -> int:
    """`x` as an int; TypeError if it is none."""
    try:
        if not is_masked(x):
            return operator.index(x)  # type: ignore[arg-type]  # what is no int raises, as wanted
    except TypeError:
        pass
    raise wrong_type(where, x, "an int")


def number(x: object, where: str) -> float:
    """`x` as a float; TypeError if it is none, text included."""
    try:
        if not isinstance(x, str | bytes) and not is_masked(x):
            return float(x)  # type: ignore[arg-type]  # what is no number raises, as wanted
    except (TypeError, ValueError, OverflowError):
        pass
    raise wrong_type(where, x, "a float")


def is_masked(x: object) -> bool:
    """Whether `x` is an array, or an element of one, with a mask, under which any number may lie."""
    return isinstance(x, np.ndarray) and isinstance(x, np.ma.MaskedArray)


def boolean(x: object, where: str) -> bool:
    """`x` as a bool; TypeError if it is neither that nor an int."""
    if isinstance(x, bool | int | np.bool_):
        return bool(x)
    raise wrong_type(where, x, "a bool")


def nothing() -> Any:  # Any: a getter's type leaves None out, see `quiet`
    """The None of a getter with an argument out of range."""


def type_name(x: object) -> str:
    """How a message names the type of `x`."""
    if isinstance(x, type):
        return f"the class {x.__name__}"
    return "None" if x is None else type(x).__name__


def user_line() -> str:
    """File and line of the nearest caller outside this package; "" where that is a command of its own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (place := _place_of(frame.f_code.co_filename)) is not None:
        if place:
            return ""
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


@functools.lru_cache(maxsize=4096)
def _place_of(file: str) -> bool | None:
    """Whether a file of this package is one of its commands; None for any other."""
    return file.startswith(COMMANDS) if file.startswith(PACKAGE) else None


def placed(error: AnyrtError) -> AnyrtError:
    """`error` with the line of the user's call, unless it names a line already."""
    line = "" if LINE.search(error.where) else user_line()
    return error.at(f"{error.where} ({line})".lstrip()) if line else error


class Channel:
    """Where the errors of an object go: its logger, and its error recorder or its parent's."""

    def __init__(self, logger: ILogger, parent: Channel | None = None) -> None:
        self.logger = logger
        self.parent = parent
        self.recorder: IErrorRecorder | None = None
        self._logged: set[str] = set()

    def log(self, severity: Severity, text: str) -> None:
        """Hand a message to the logger; a logger that raises is printed and ignored."""
        call_user(None, self.logger.log, severity, text)

    def once(self, severity: Severity, text: str) -> None:
        """Log a message unless this object, or one that was made by the same builder or runtime, did."""
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
        """Report a fault of this library without taking the program down; under strict, raise it."""
        self.fail(self.fault(where, error), Severity.INTERNAL_ERROR)

    def fault(self, where: str, error: Exception) -> CompileError:
        """What to report of a fault of this library; under strict, raise it."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
        do = "please report it with the traceback, which anyrt.strict() shows, and the output of `anyrt info`"
        if is_strict():
            raise error
        return CompileError("AR807", where, f"an internal error in AnyRT, {text}", do=do)


class HasChannel(Protocol):
    """An object whose errors have somewhere to go."""

    @property
    def _channel(self) -> Channel: ...


def channel_of(x: HasChannel) -> Channel:
    """Where the errors of an object go."""
    return x._channel


S = TypeVar("S", bound=HasChannel)


def _is_of_the_call(error: TypeError) -> bool:
    """Whether the arguments do not fit the parameters: then no line of the method has run."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def _lacks_memory(error: Exception) -> bool:
    """Whether Python had none, or the system: for a module, or LLVM, that is loaded only now, too."""
    if isinstance(error, OSError) and error.errno is None:  # llvmlite raises it for any message of the loader
        return not has_room(LIBRARY_ROOM)
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


@overload
def quiet(fallback: None) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]: ...
@overload
def quiet(fallback: F) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R | F]]: ...
def quiet(fallback: F) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R | F]]:
    """A method that returns `fallback` where it would raise an `AnyrtError`.

    Types leave out None, as in TensorRT: a program that does not ask for it stops at the next line anyway."""

    def wrap(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R | F]:
        name = method.__name__.lstrip("_")  # as the user called it

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
            except Exception as error:  # the contract: the core never throws
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
    """The sentence of a docstring about errors."""
    if method.__annotations__.get("return") == "None":
        answers = "Changes nothing"
    else:
        answers = f"Returns {fallback if isinstance(fallback, TrtEnum) else repr(fallback)}"
    return f"{answers} on an error, and logs the error with its code; under anyrt.strict(), raises it."


class Reporting(Fixed):
    """Base of the objects that have an `error_recorder`."""

    __slots__ = ("__weakref__", "_channel")

    _channel: Channel

    @property
    def error_recorder(self) -> IErrorRecorder | None:
        """Receives every error of this object; if None, the recorder of the object that created it does."""
        return self._channel.recorder

    @error_recorder.setter
    def error_recorder(self, recorder: IErrorRecorder | None) -> None:
        if recorder is not None and not isinstance(recorder, IErrorRecorder):
            raise wrong_type("error_recorder", recorder, "an IErrorRecorder or None")
        self._channel.recorder = recorder


class Logged(Reporting):
    """Base of the objects that a program makes with a logger."""

    __slots__ = ()

    def _log_to(self, logger: ILogger, parent: Channel | None = None) -> None:
        """Messages go to `logger` from now on."""
        kind = type(self).__name__
        if not isinstance(logger, ILogger):
            raise wrong_type(f"{kind}: logger", logger, "an ILogger", "make one: trt.Logger()")
        self._channel = Channel(logger, parent)

    @property
    def logger(self) -> ILogger:
        """Where messages go."""
        return self._channel.logger
