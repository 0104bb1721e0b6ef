"""The served models: one file, or a repository of folders `name/version/model.onnx` or `model.plan`.

The name in a request is looked up among the existing names; it never becomes a path. Links are not followed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final

from anyrt.core.errors import AnyrtError, ArgumentError, NotSupportedError
from anyrt.onnx.predictor import Metadata, Predictor
from anyrt.serve.batching import Batcher
from anyrt.serve.invariance import Trials
from anyrt.serve.logs import log
from anyrt.serve.refused import Limits, Reason, Refused
from anyrt.serve.settings import Settings, read_settings
from anyrt.serve.stats import Statistics
from anyrt.serve.tensors import NAMES, Input, Known
from anyrt.serve.tracing import runs

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
VERSION: Final = re.compile(r"[1-9][0-9]{0,17}")
FILES: Final = ("model.onnx", "model.plan")
CONFIG: Final = "config.pbtxt"
MOST_CONFIG: Final = 1 << 20


class State(Enum):
    """The state of a version, with the names of the protocol."""

    READY = "READY"
    UNAVAILABLE = "UNAVAILABLE"
    LOADING = "LOADING"


@dataclass(frozen=True, slots=True)
class Model:
    """A loaded version: its inputs, its queue, and the last JSON of requests."""

    name: str
    version: str
    settings: Settings
    metadata: Metadata
    predictor: Predictor
    batcher: Batcher
    statistics: Statistics
    inputs: Mapping[str, Input]
    known: dict[bytes, Known] = field(default_factory=dict)

    def close(self) -> None:
        """Process the waiting requests, then release the engine."""
        self.batcher.close()
        self.predictor.close()


@dataclass(slots=True)
class Entry:
    """A version in the index."""

    version: str
    state: State
    reason: str = ""
    model: Model | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """How models are opened: threads per inference, and limits."""

    threads: int | None = None
    limits: Limits = field(default_factory=Limits)


def open_model(path: Path, name: str, version: str, settings: Settings, options: Options) -> Model:
    """The model of a file, loaded; raises the errors of its build, and ArgumentError for invalid settings."""
    predictor = Predictor(path, threads=options.threads, contexts=settings.instances)
    metadata = predictor.metadata()
    _check(metadata, settings, name)
    inputs = {
        p.name: Input(
            p.name,
            p.dtype,
            p.shape,
            tuple((r[p.name][0], r[p.name][2]) for r in metadata.profiles if r.get(p.name)),
        )
        for p in metadata.inputs
    }
    statistics = Statistics()
    report = partial(log, "batch_invariant", model=name, version=version)
    trials = Trials(predictor.run, metadata.inputs, report) if settings.batch_invariant else None
    joins = settings.max_batch_size > 1
    batcher = Batcher(predictor.run, settings, options.limits, statistics, joins, trials, runs(name, version))
    return Model(name, version, settings, metadata, predictor, batcher, statistics, inputs)


def _check(metadata: Metadata, settings: Settings, name: str) -> None:
    for port in (*metadata.inputs, *metadata.outputs):
        if port.dtype not in NAMES:
            got, wanted = f"tensor {port.name!r} of {port.dtype.name}", f"one of {', '.join(NAMES.values())}"
            raise NotSupportedError("AR901", name, got, wanted, "cast it in the model")
    if settings.max_batch_size:
        for port in (*metadata.inputs, *metadata.outputs):
            if port.shape[:1] != (-1,):
                do = "export it with an open first axis, or set max_batch_size to 0"
                got, wanted = f"{port.name!r} of shape {port.shape}", "−1 as first size of each tensor"
                raise ArgumentError("AR304", name, got, wanted, do)
    for declared, ports in ((settings.inputs, metadata.inputs), (settings.outputs, metadata.outputs)):
        known = {p.name for p in ports}
        for tensor, *_ in declared:
            if tensor not in known:
                raise ArgumentError("AR304", f"{name}/{CONFIG}", repr(tensor), ", ".join(sorted(known)))


class Repository:
    """Models by name and version; any thread may use it, and load or unload if that is allowed."""

    def __init__(self, source: Source, options: Options) -> None:
        self.source, self.options = source, options
        self._models: dict[str, dict[str, Entry]] = {}
        self._lock = threading.Lock()  # of loading: one model at a time

    def load_all(self) -> None:
        """Load every model of the source; the index has the reasons of failures."""
        for name in self.source.names():
            with contextlib.suppress(Refused):
                self.load(name)

    def load(self, name: str) -> None:
        """Load a model from its current files; the previous one processes the waiting requests.

        Refused: the model does not exist, or one of its versions cannot be loaded. Then versions that were
        loaded before stay in use, as in Triton; if there were none, the other versions are ready."""
        with self._lock:
            if name not in self.source.names():
                raise Refused(Reason.UNKNOWN, f"no model {name[:80]!r} in the repository")
            before, loaded = self._models.get(name, {}), self._loaded(name)
            lost = [e for e in loaded.values() if e.model is None]
            stays = bool(lost) and any(e.model for e in before.values())
            self._models[name] = before if stays else loaded
        _close(loaded if stays else before)
        if lost:
            reasons = "; ".join(f"version {e.version}: {e.reason}" if e.version else e.reason for e in lost)
            text = f"failed to load {name!r}: {reasons}"[:2000]
            raise Refused(Reason.BAD, text + "; the versions loaded before stay in use" * stays)

    def unload(self, name: str) -> None:
        """Process the waiting requests, and remove the model."""
        with self._lock:
            entries = self._entries(name)
            states = {v: Entry(v, State.UNAVAILABLE, "unloaded") for v in entries}
            self._models[name] = states
        _close(entries)

    def close(self) -> None:
        """Unload everything."""
        for entries in list(self._models.values()):
            _close(entries)

    def _loaded(self, name: str) -> dict[str, Entry]:
        try:
            settings, files = self.source.versions(name)
        except (AnyrtError, OSError) as error:
            return {"": Entry("", State.UNAVAILABLE, str(error))}
        if not files:
            return {"": Entry("", State.UNAVAILABLE, "no version with a " + " or ".join(FILES))}
        return {v: self._version(name, v, path, settings) for v, path in files.items()}

    def _version(self, name: str, version: str, path: Path, settings: Settings) -> Entry:
        try:
            model = open_model(path, name, version, settings, self.options)
        except (AnyrtError, OSError, MemoryError) as error:
            return Entry(version, State.UNAVAILABLE, str(error))
        return Entry(version, State.READY, "", model)

    def _entries(self, name: str) -> dict[str, Entry]:
        entries = self._models.get(name)
        if entries is None:
            raise Refused(Reason.UNKNOWN, f"unknown model {name[:80]!r}")
        return entries

    def model(self, name: str, version: str = "") -> Model:
        """The requested version, otherwise the latest; Refused if it does not exist or is not ready."""
        entries = self._entries(name)
        ready = [v for v, e in entries.items() if e.model is not None]
        chosen = version or max(ready, key=int, default="")
        entry = entries.get(chosen)
        if entry is None and chosen:
            raise Refused(Reason.UNKNOWN, f"model {name!r} has no version {version[:20]!r}")
        if entry is None or entry.model is None:
            reasons = "; ".join(e.reason for e in entries.values())
            raise Refused(Reason.BUSY, f"model {name!r} is not ready: {reasons}"[:600])
        return entry.model

    def versions(self, name: str) -> list[str]:
        """The versions that are ready."""
        return sorted((v for v, e in self._entries(name).items() if e.model), key=int)

    def models(self) -> Iterator[Model]:
        """All loaded models."""
        for entries in list(self._models.values()):
            yield from (e.model for e in list(entries.values()) if e.model is not None)

    def index(self, ready: bool = False) -> list[dict[str, str]]:
        """Every version, with its state."""
        versions = [(n, e) for n, entries in list(self._models.items()) for e in entries.values()]
        return [
            {"name": n, "version": e.version, "state": e.state.value, "reason": e.reason}
            for n, e in versions
            if e.state is State.READY or not ready
        ]

    def is_ready(self) -> bool:
        """Whether all configured models are ready."""
        entries = [e for versions in list(self._models.values()) for e in versions.values()]
        return all(e.state is State.READY or e.reason == "unloaded" for e in entries)


def _close(entries: Mapping[str, Entry]) -> None:
    for entry in entries.values():
        if entry.model is not None:
            entry.model.close()


@dataclass(frozen=True, slots=True)
class Source:
    """The source of models: the one file of `single`, or the folders of `root`."""

    root: Path | None = None
    single: tuple[str, Path, Settings] | None = None

    def names(self) -> list[str]:
        """The current configurations of all models."""
        if self.single is not None:
            return [self.single[0]]
        assert self.root is not None, "either root or single is set"
        with os.scandir(self.root) as folders:
            names = [e.name for e in folders if e.is_dir(follow_symlinks=False) and NAME.fullmatch(e.name)]
        return sorted(names)

    def versions(self, name: str) -> tuple[Settings, dict[str, Path]]:
        """The settings of a model, and the files of its versions."""
        if self.single is not None:
            return self.single[2], {"1": self.single[1]}
        assert self.root is not None, "either root or single is set"
        folder = self.root / name
        settings = read_settings(_text(folder / CONFIG), name)
        with os.scandir(folder) as folders:
            every = [e.name for e in folders if e.is_dir(follow_symlinks=False) and VERSION.fullmatch(e.name)]
        files = {v: f for v in sorted(every, key=int) if (f := _file(folder / v)) is not None}
        return settings, _chosen(files, settings)


def _chosen(files: dict[str, Path], settings: Settings) -> dict[str, Path]:
    match settings.versions:
        case None:
            return files
        case int(latest):
            return dict(list(files.items())[-latest:])
        case several:
            return {v: f for v, f in files.items() if int(v) in several}


def _file(folder: Path) -> Path | None:
    """The model of a version: a regular file, no link."""
    return next((folder / f for f in FILES if _is_regular(folder / f)), None)


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _text(path: Path) -> str:
    """The text of a configuration, "" if there is none; links are not followed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    with os.fdopen(handle, "rb") as file:
        held = file.read(MOST_CONFIG + 1)
    try:
        return held.decode()
    except UnicodeDecodeError as error:
        raise ArgumentError("AR304", str(path), str(error), "text in UTF-8") from None
