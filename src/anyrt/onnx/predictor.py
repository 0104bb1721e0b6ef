"""A model as one object that is opened lazily, can be pickled, and can be called from many threads.

with Predictor("model.onnx") as predict:
    predict.run({"x": np.zeros((1, 3, 224, 224), np.float32)})["y"]
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, overload

from numpy.typing import NDArray
from onnx import ModelProto

from anyrt.api.building.builder import Builder
from anyrt.api.building.config import IBuilderConfig
from anyrt.api.edge.fixed import Listed
from anyrt.api.edge.interfaces import Logger
from anyrt.api.edge.oneline import one_line
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import state_of
from anyrt.api.run.host_memory import IHostMemory
from anyrt.api.run.runtime import Runtime
from anyrt.core.enums import BuilderFlag, NetworkDefinitionCreationFlag, Severity
from anyrt.core.errors import ArgumentError
from anyrt.core.flags import processors, strict
from anyrt.onnx.parser import OnnxParser
from anyrt.onnx.script import call_user, split_place
from anyrt.onnx.session import Port, Session, plan_bytes, refused, take_title
from anyrt.plan.cache import cache_key, default_directory
from anyrt.plan.file import MAGIC, display_name
from anyrt.runtime.collective import Communicator
from anyrt.runtime.direct import DirectCall
from anyrt.runtime.memory import Policy

Arrays = dict[str, NDArray[Any]]  # Any: of the types of the model
Shapes = tuple[Sequence[int], Sequence[int], Sequence[int]]
PRECISIONS: Final = {"fp16": BuilderFlag.FP16, "bf16": BuilderFlag.BF16, "int8": BuilderFlag.INT8}
LOCKS: Final = 16  # number of lock files in the cache directory, for builds of one machine


@dataclass(frozen=True, slots=True)
class Metadata:
    """The inputs and outputs of a model; shapes have −1 for dynamic dimensions."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    profiles: tuple[Mapping[str, Shapes], ...]


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters of this process; seconds: time inside the engine."""

    runs: int = 0
    failures: int = 0
    seconds: float = 0.0
    contexts: int = 0


@dataclass(slots=True)
class _Opened:
    """An engine in the process that opened it, with its idle contexts, of which the last used one is taken
    first. `permits`: one for each inference that may start."""

    session: Session
    idle: list[DirectCall]
    permits: queue.SimpleQueue[None]
    profiles: tuple[Mapping[str, Shapes], ...]
    ranks: Communicator | None = None
    pid: int = field(default_factory=os.getpid)


class Predictor(metaclass=Listed):
    """A model that the first call opens, in the calling process; calls return arrays by name.

    `model` is an argument of `anyrt.load`, or `FILE.py` or `FILE.py:function`, a function that adds layers to
    a network. `profiles`: for each, the minimum, optimum and maximum shapes of inputs by name. `precision`:
    types in which kernels may compute, of "fp16", "bf16", "int8". `threads`: number of threads of an
    inference (None: that of the machine). `contexts`: maximum number of concurrent inferences (None: number
    of processors); further calls wait. A pickled object contains the path or bytes of the model and these
    options. Processes of one machine that open the same model wait for each other, so that it is compiled
    once. `communicator`: exchanges arrays with other ranks, or a function that returns it in the process that
    opens the model; then one inference runs at a time."""

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | ModelProto,
        *,
        profiles: Sequence[Mapping[str, Shapes]] = (),
        precision: Sequence[str] = (),
        threads: int | None = None,
        contexts: int | None = None,
        communicator: Communicator | Callable[[], Communicator] | None = None,
    ) -> None:
        self._model = _kept(model)
        self._profiles = tuple(dict(p) for p in profiles)
        self._precision, self._threads = tuple(precision), threads
        self._communicator = communicator
        self._contexts = contexts or (processors() if communicator is None else 1)
        if communicator is not None and self._contexts > 1:
            got = f"{contexts} contexts that share a communicator"
            raise ArgumentError(
                "AR304", "Predictor", got, "one context, since all ranks exchange in one order"
            )
        unknown = [p for p in self._precision if p not in PRECISIONS]
        if unknown:
            raise ArgumentError(
                "AR304", "Predictor", f"precision {unknown[0]!r}", f"one of {', '.join(PRECISIONS)}"
            )
        for name, count in (("threads", threads), ("contexts", contexts)):
            if count is not None and count < 1:
                raise ArgumentError("AR304", "Predictor", f"{name}={count}", "None, or 1 or more")
        self._reset()

    def _reset(self) -> None:
        self._opened: _Opened | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        self._stats = Stats()

    def __getstate__(self) -> dict[str, object]:
        return {
            "_model": self._model,
            "_profiles": self._profiles,
            "_precision": self._precision,
            "_threads": self._threads,
            "_contexts": self._contexts,
            "_communicator": self._communicator,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._reset()

    @overload
    def run(self, inputs: Mapping[str, object]) -> Arrays: ...
    @overload
    def run(self, inputs: Sequence[Mapping[str, object]]) -> list[Arrays]: ...
    def run(self, inputs: Mapping[str, object] | Sequence[Mapping[str, object]]) -> Arrays | list[Arrays]:
        """The outputs as new arrays, for one set of inputs or for each of a list.

        Raises the errors of `anyrt.load` when it opens the model, BindingError and ProfileError for invalid
        arrays, and ArgumentError AR304 after `close`."""
        if isinstance(inputs, Mapping):
            return self._one(inputs)
        return [self._one(item) for item in inputs]

    def _one(self, inputs: Mapping[str, object]) -> Arrays:
        opened = self._open()
        opened.permits.get()  # waits while the maximum of contexts computes
        try:
            try:
                call = opened.idle.pop()
            except IndexError:  # another thread may have taken the last one
                call = self._context(opened)
            start, done = time.perf_counter(), 0
            try:
                results, done = call(inputs, opened.ranks), 1
            finally:
                self._count(runs=done, failures=1 - done, seconds=time.perf_counter() - start)
                opened.idle.append(call)
        finally:
            opened.permits.put(None)
        return {p.name: results[p.name] for p in opened.session.outputs}

    def _context(self, opened: _Opened) -> DirectCall:
        """A new context."""
        context = DirectCall(state_of(opened.session.engine).engine.create_context(Policy.ON_DEMAND))
        self._count(contexts=1)
        return context

    def _count(self, runs: int = 0, failures: int = 0, seconds: float = 0.0, contexts: int = 0) -> None:
        with self._lock:
            s = self._stats
            self._stats = Stats(
                s.runs + runs, s.failures + failures, s.seconds + seconds, s.contexts + contexts
            )

    def _open(self) -> _Opened:
        opened = self._opened
        if opened is not None and opened.pid == os.getpid() and not self._is_closed:
            return opened
        if (
            opened is not None and opened.pid != os.getpid()
        ):  # locks and contexts belong to the parent process
            self._reset()
        with self._lock:
            if self._is_closed:
                raise ArgumentError("AR304", "Predictor", "a call after close()", "calls before close()")
            if self._opened is None:
                state = {k: v for k, v in self.__getstate__().items() if k != "_communicator"}
                with one_at_a_time(cache_key("predictor", repr(state))):
                    opened = self._load()
                opened.ranks = self._ranks()  # it may wait for other threads, which wait for the lock
                self._opened = opened
            return self._opened

    def _ranks(self) -> Communicator | None:
        ranks = self._communicator
        return ranks if ranks is None or isinstance(ranks, Communicator) else ranks()

    def _load(self) -> _Opened:
        logger = Logger(Severity.ERROR)
        with strict():
            engine = Runtime(logger).deserialize_cuda_engine(self._plan(logger))
        permits = queue.SimpleQueue[None]()
        for _ in range(self._contexts):
            permits.put(None)
        names = [p.name for p in Session(engine).inputs]
        profiles = tuple(
            {n: _shapes(engine.get_tensor_profile_shape(n, k)) for n in names}
            for k in range(len(state_of(engine).plan.profiles))
        )
        return _Opened(Session(engine), [], permits, profiles)

    def _plan(self, logger: Logger) -> IHostMemory | bytes:
        model = self._model
        if isinstance(model, bytes):
            return model if model.startswith(MAGIC) else self._build(model, logger)
        path, _ = split_place(model)
        if path.suffix in (".onnx", ".py"):
            return self._build(model, logger)
        return plan_bytes(path)

    def _build(self, model: str | bytes, logger: Logger) -> IHostMemory:
        builder = Builder(logger)
        path, function = split_place(model) if isinstance(model, str) else (None, "")
        is_script = path is not None and path.suffix == ".py"
        strong = not is_script and not self._precision
        network = INetworkDefinition(builder, strong << NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        config = builder.create_builder_config()
        self._configure(builder, config)
        if path is not None and is_script:
            network.name = path.stem
            call_user(path, function, network, config)
        else:
            parser = OnnxParser(network, logger)
            good = parser.parse(model) if isinstance(model, bytes) else parser.parse_from_file(model)
            if not good:
                raise refused(parser)
            take_title(network)
        return builder.build_serialized_network(network, config)

    def _configure(self, builder: Builder, config: IBuilderConfig) -> None:
        for name in self._precision:
            config.set_flag(PRECISIONS[name])
        if self._threads is not None:
            config.num_threads = self._threads
        for shapes in self._profiles:
            profile = builder.create_optimization_profile()
            for name, (least, best, most) in shapes.items():
                profile.set_shape(name, least, best, most)
            config.add_optimization_profile(profile)

    def metadata(self) -> Metadata:
        """The names, types and shapes of inputs and outputs, and the profiles; opens the model."""
        opened = self._open()
        s, path = opened.session, split_place(self._model)[0] if isinstance(self._model, str) else None
        return Metadata(display_name(s.engine.name, path), s.inputs, s.outputs, opened.profiles)

    def stats(self) -> Stats:
        """The inferences, failures and seconds of this object in this process so far."""
        return self._stats

    def close(self) -> None:
        """Release the engine when its running inferences are complete; later calls raise ArgumentError."""
        with self._lock:
            self._opened, self._is_closed = None, True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @one_line
    def __repr__(self) -> str:
        return f" {len(self._model)} bytes" if isinstance(self._model, bytes) else f" {self._model}"


def _kept(model: object) -> str | bytes:
    """A model in the form for pickling; paths are absolute."""
    if isinstance(model, ModelProto):
        return bytes(model.SerializeToString())
    if isinstance(model, bytes):
        return model
    if isinstance(model, str | os.PathLike):
        return os.path.abspath(str(os.fspath(model)))
    wanted = "a path, the bytes of a model or plan, or an onnx.ModelProto"
    raise ArgumentError("AR304", "Predictor", f"a {type(model).__name__}", wanted)


def _shapes(shapes: Sequence[Sequence[int]]) -> Shapes:
    least, best, most = (tuple(s) for s in shapes)
    return least, best, most


@contextlib.contextmanager
def one_at_a_time(key: str, folder: Path | None = None) -> Iterator[None]:
    """Hold the lock for `key`, which the processes of this user share: the first process compiles, the others
    use the cache. If the cache directory is not writable, there is no lock."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            place = default_directory() if folder is None else folder
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = place / f"building-{int(key[:8], 16) % LOCKS}.lock"
            handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            stack.callback(os.close, handle)  # this releases the lock, as the end of the process does
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
