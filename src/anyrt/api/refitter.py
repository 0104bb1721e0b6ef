"""Exchanging weights of a loaded engine: not there yet, every method is a marked stub."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyrt.api.edge import Channel, Reporting, quiet, wrong_type
from anyrt.api.engine import ICudaEngine
from anyrt.api.fold import fold
from anyrt.api.interfaces import ILogger
from anyrt.api.oneline import one_line, quoted
from anyrt.api.setting import Setting
from anyrt.core.errors import NotSupportedError


@fold
class Refitter(Reporting):
    """Would exchange weights of `engine`; engines are not refittable yet, `engine.refittable` says so."""

    __slots__ = ("_engine", "_settings")

    __anyrt_stub__ = True
    max_threads = Setting(int, 1, "Most threads that refitting may use.", low=1)
    weights_validation = Setting(bool, True, "Whether weights are looked through for nan and infinity.")

    def __init__(self, engine: ICudaEngine, logger: ILogger) -> None:
        if not isinstance(engine, ICudaEngine):
            raise wrong_type("Refitter: engine", engine, "an ICudaEngine")
        if not isinstance(logger, ILogger):
            raise wrong_type("Refitter: logger", logger, "an ILogger")
        self._settings: dict[str, object] = {}
        self._engine = engine
        self._channel = Channel(logger)

    @one_line
    def __repr__(self) -> str:
        return f" of {quoted(self._engine.name)}"

    @property
    def logger(self) -> ILogger:
        """Where messages go."""
        return self._channel.logger


def _stub(name: str, answer: object) -> Callable[..., object]:
    @quiet(answer)
    def method(self: Refitter, *args: Any) -> None:  # Any: arguments of many kinds, all refused
        do = "build the engine again with the new weights"
        raise NotSupportedError(
            "AR901", f"Refitter.{name}", "an engine", "one that can be refitted: none yet", do
        )

    method.__name__, method.__doc__ = name, "Not there yet."
    vars(method)["__anyrt_stub__"] = True
    return method


_ANSWERS: dict[object, tuple[str, ...]] = {
    False: (
        *("set_weights", "set_named_weights", "unset_named_weights", "set_dynamic_range"),
        *("refit_cuda_engine", "refit_cuda_engine_async"),
    ),
    (): ("get_missing_weights", "get_all_weights", "get_tensors_with_dynamic_range", "get_dynamic_range"),
    ((), ()): ("get_missing", "get_all"),
    None: ("get_named_weights", "get_weights_location", "get_weights_prototype"),
}
for _answer, _names in _ANSWERS.items():
    for _name in _names:
        setattr(Refitter, _name, _stub(_name, _answer))
