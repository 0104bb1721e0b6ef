"""The exception tree: every message says where, got, wanted and what to do, and carries a stable code.

    AnyrtError
    ├── ShapeError        (ValueError)           1xx  shapes, ranks, volumes
    ├── DTypeError        (TypeError)            2xx  element types
    ├── ArgumentError     (ValueError)           3xx  an attribute or argument has a bad value
    │   └── WrongName     (AttributeError)            an attribute that the object does not have
    ├── GraphError        (ValueError)           4xx  how the network is put together
    ├── ProfileError      (ValueError)           5xx  optimization profiles
    ├── PlanError         (ValueError)           6xx  a plan cannot be read
    ├── BindingError      (ValueError)           7xx  addresses, arrays and layouts of a run
    ├── ResourceError     (RuntimeError)         8xx  memory and disk
    ├── CompileError      (RuntimeError)         8xx  code generation and loading of code
    ├── VerifyError       (RuntimeError)         8xx  a kernel differs from its reference
    ├── BuildCancelled    (RuntimeError)         8xx  the user stopped a build
    └── NotSupportedError (NotImplementedError)  9xx  known and not implemented
        └── MissingName   (AttributeError)            a name of TensorRT's API that is not here

>>> str(ShapeError("AR101", "scale1", got="rank 3", wanted="rank >= 4", do="add unit dimensions"))
'[AR101] scale1: got rank 3, wanted rank >= 4; add unit dimensions'
"""

from __future__ import annotations

from typing import ClassVar, Self

from anyrt.core.codes import CODES, Code, Kind


class AnyrtError(Exception):
    """A mistake with a stable `code`; raise one of the subclasses.

    `where` names the layer or tensor, with the user's file and line if known; "" until `at` fills it.
    """

    kind: ClassVar[Kind]

    def __init__(self, code: str, where: str, got: str = "", wanted: str = "", do: str = "") -> None:
        assert code in CODES, f"code {code} is not in the table"
        assert CODES[code].kind is self.kind, f"code {code} does not belong to {type(self).__name__}"
        Exception.__init__(
            self, code, where, got, wanted, do
        )  # these are what a pickled exception is rebuilt from
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
        """The code's line in the table."""
        return CODES[self.code]

    def at(self, where: str) -> Self:
        """The same error at another place: `raise error.at("conv1 (net.py:12)") from None`."""
        moved = type(self)(self.code, where, self.got, self.wanted, self.do)
        moved.__cause__ = self.__cause__
        return moved


class ShapeError(AnyrtError, ValueError):
    """A shape, rank or volume that does not fit."""

    kind = Kind.SHAPE


class DTypeError(AnyrtError, TypeError):
    """An element type that does not fit."""

    kind = Kind.DTYPE


class ArgumentError(AnyrtError, ValueError):
    """An attribute or argument with a bad value."""

    kind = Kind.ARGUMENT


class WrongName(ArgumentError, AttributeError):
    """An attribute that an object does not have, or that cannot be set."""


class GraphError(AnyrtError, ValueError):
    """A network that is not put together properly."""

    kind = Kind.GRAPH


class ProfileError(AnyrtError, ValueError):
    """An optimization profile that does not fit the network, or a shape that does not fit the profile."""

    kind = Kind.PROFILE


class PlanError(AnyrtError, ValueError):
    """A plan that cannot be read."""

    kind = Kind.PLAN


class BindingError(AnyrtError, ValueError):
    """An address, array or layout that a run cannot use."""

    kind = Kind.BINDING


class ResourceError(AnyrtError, RuntimeError):
    """Too little memory or disk."""

    kind = Kind.RESOURCE


class CompileError(AnyrtError, RuntimeError):
    """Code that could not be made or loaded: a fault of this library."""

    kind = Kind.COMPILE


class VerifyError(AnyrtError, RuntimeError):
    """A kernel that disagrees with its reference."""

    kind = Kind.VERIFY


class BuildCancelled(AnyrtError, RuntimeError):
    """A build that the user stopped."""

    kind = Kind.CANCELLED


class PluginError(AnyrtError, RuntimeError):
    """A plug-in that raises, answers wrongly, is unknown or writes where it must not."""

    kind = Kind.PLUGIN


class RefitError(AnyrtError, ValueError):
    """Weights that cannot take the place of others, or that are missing."""

    kind = Kind.REFIT


class NotSupportedError(AnyrtError, NotImplementedError):
    """Something known that is not implemented."""

    kind = Kind.NOT_SUPPORTED


class MissingName(NotSupportedError, AttributeError):
    """A name of TensorRT's API that is not here; `hasattr` answers False."""


CLASSES: dict[Kind, type[AnyrtError]] = {c.kind: c for c in AnyrtError.__subclasses__()}


def error(code: str, where: str, got: str = "", wanted: str = "", do: str = "") -> AnyrtError:
    """The error of the class that the table gives for `code`, for callers that choose it at run time."""
    assert code in CODES, f"code {code} is not in the table"
    return CLASSES[CODES[code].kind](code, where, got, wanted, do)
