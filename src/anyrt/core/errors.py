"""The exception classes. A message has a stable code, the place, what was got, what was wanted, and the cure.

    AnyrtError
    ├── ShapeError        (ValueError)           1xx  shapes, ranks, volumes
    ├── DTypeError        (TypeError)            2xx  element types
    ├── ArgumentError     (ValueError)           3xx  an attribute or argument is invalid
    │   └── WrongName     (AttributeError)            an attribute that the class does not have
    ├── GraphError        (ValueError)           4xx  the structure of a network
    ├── ProfileError      (ValueError)           5xx  optimization profiles
    ├── PlanError         (ValueError)           6xx  a plan cannot be read
    ├── BindingError      (ValueError)           7xx  addresses, arrays and layouts of an inference
    ├── ResourceError     (RuntimeError)         8xx  memory and disk
    ├── CompileError      (RuntimeError)         8xx  generating and loading code
    ├── VerifyError       (RuntimeError)         8xx  a kernel differs from its reference
    ├── BuildCancelled    (RuntimeError)         8xx  the user cancelled a build
    └── NotSupportedError (NotImplementedError)  9xx  not supported
        └── MissingName   (AttributeError)            a name of TensorRT's API that AnyRT lacks

>>> str(ShapeError("AR101", "scale1", got="rank 3", wanted="rank >= 4", do="add dimensions of size 1"))
'[AR101] scale1: got rank 3, wanted rank >= 4; add dimensions of size 1'
"""

from __future__ import annotations

from typing import ClassVar, Self

from anyrt.core.codes import CODES, Code, Kind


class AnyrtError(Exception):
    """An error with a stable `code`; raise one of the subclasses.

    `where` names the layer or tensor, with the user's file and line if known; "" until `at` sets it.
    """

    kind: ClassVar[Kind]

    def __init__(self, code: str, where: str, got: str = "", wanted: str = "", do: str = "") -> None:
        assert code in CODES, f"code {code} is not in the table"
        assert CODES[code].kind is self.kind, f"code {code} does not belong to {type(self).__name__}"
        Exception.__init__(self, code, where, got, wanted, do)  # arguments for unpickling
        self.code = code
        self.where = where
        self.got = got
        self.wanted = wanted
        self.do = do or CODES[code].do

    def __str__(self) -> str:
        facts = [f"{verb} {text}" for verb, text in (("got", self.got), ("wanted", self.wanted)) if text]
        place = f" {self.where}:" if self.where else ""
        advice = f"; {self.do}" if self.do else ""
        return f"[{self.code}]{place} {', '.join(facts) or self.entry.title}{advice}"

    @property
    def entry(self) -> Code:
        """The row of the code in the table."""
        return CODES[self.code]

    def at(self, where: str) -> Self:
        """A copy of the error with another place: `raise error.at("conv1 (net.py:12)") from None`."""
        moved = type(self)(self.code, where, self.got, self.wanted, self.do)
        moved.__cause__ = self.__cause__
        return moved


class ShapeError(AnyrtError, ValueError):
    """An invalid shape, rank or volume."""

    kind = Kind.SHAPE


class DTypeError(AnyrtError, TypeError):
    """An invalid element type."""

    kind = Kind.DTYPE


class ArgumentError(AnyrtError, ValueError):
    """An invalid attribute or argument."""

    kind = Kind.ARGUMENT


class WrongName(ArgumentError, AttributeError):
    """An attribute that a class does not have, or that cannot be set."""


class GraphError(AnyrtError, ValueError):
    """An invalid network."""

    kind = Kind.GRAPH


class ProfileError(AnyrtError, ValueError):
    """A profile that does not fit the network, or a shape outside the profile."""

    kind = Kind.PROFILE


class PlanError(AnyrtError, ValueError):
    """A plan that cannot be read."""

    kind = Kind.PLAN


class BindingError(AnyrtError, ValueError):
    """An invalid address, array or layout for an inference."""

    kind = Kind.BINDING


class ResourceError(AnyrtError, RuntimeError):
    """Too little memory or disk, or a process that has ended."""

    kind = Kind.RESOURCE


class CompileError(AnyrtError, RuntimeError):
    """Code that could not be generated or loaded: an internal error in AnyRT."""

    kind = Kind.COMPILE


class VerifyError(AnyrtError, RuntimeError):
    """A kernel whose result differs from its reference."""

    kind = Kind.VERIFY


class BuildCancelled(AnyrtError, RuntimeError):
    """A build that the user cancelled."""

    kind = Kind.CANCELLED


class PluginError(AnyrtError, RuntimeError):
    """A plug-in that raises an exception, returns an invalid result, is unknown or writes out of bounds."""

    kind = Kind.PLUGIN


class RefitError(AnyrtError, ValueError):
    """Weights that do not fit the engine, or that are missing."""

    kind = Kind.REFIT


class NotSupportedError(AnyrtError, NotImplementedError):
    """A feature that AnyRT does not support."""

    kind = Kind.NOT_SUPPORTED


class MissingName(NotSupportedError, AttributeError):
    """A name of TensorRT's API that AnyRT lacks; `hasattr` returns False."""


CLASSES: dict[Kind, type[AnyrtError]] = {c.kind: c for c in AnyrtError.__subclasses__()}


def error(code: str, where: str, got: str = "", wanted: str = "", do: str = "") -> AnyrtError:
    """An error of the class that belongs to `code`, for callers that select the code at run time."""
    assert code in CODES, f"code {code} is not in the table"
    return CLASSES[CODES[code].kind](code, where, got, wanted, do)
