"""LLVM in several processes: llvmlite lets one thread of a process at a time into LLVM.

A worker is a fresh interpreter that reads texts and writes objects until its input ends. It imports LLVM and
nothing of the program that builds: a `__main__` without a guard does not run again. Where no worker can be
started, or one fails, its texts are compiled here; so the result never depends on workers.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Final

from anyrt.codegen import llvm
from anyrt.core.errors import AnyrtError
from anyrt.core.flags import processors

PAYS: Final = 12  # texts: starting a worker takes as long as compiling three to five
MOST: Final = 16  # workers
MAX_BYTES: Final = 1 << 30
_LENGTH: Final = struct.Struct("<q")
_FAILED: Final = -1
_READY: Final = b"ready"
TURN: Final = 0.1  # seconds between polls of the workers
PATIENCE: Final = 1.0  # seconds for a thread whose worker was killed; its children may live on
# Of the interpreter that builds: who asked it to import nothing of the environment asks it of workers, too.
_OPTIONS: Final = (
    ("-I", sys.flags.isolated),
    ("-E", sys.flags.ignore_environment),
    ("-s", sys.flags.no_user_site),
    ("-S", sys.flags.no_site),
    ("-B", sys.dont_write_bytecode),
)
_START: Final = "import sys; sys.path[:] = sys.argv[1:]; from anyrt.codegen.workers import serve; serve()"


def compile_texts(
    texts: Sequence[str], target: llvm.Target, progress: Callable[[int], None]
) -> Mapping[str, bytes]:
    """An object for each text. Between compilations `progress` receives the number of objects; an exception
    that it raises stops the compilation."""
    shared = _Shared(list(reversed(texts)))
    count = min(processors() - 1, len(texts) // PAYS, MOST)
    with _started(count, target, shared, progress):
        while (text := shared.take()) is not None:
            progress(len(shared.done))
            shared.done[text] = llvm.compile_text(text, target)
    for text in texts:  # texts that a worker took and did not compile
        if text not in shared.done:
            progress(len(shared.done))
            shared.done[text] = llvm.compile_text(text, target)
    progress(len(shared.done))
    return shared.done


class _Shared:
    """Texts to compile, and their objects."""

    def __init__(self, todo: list[str]) -> None:
        self._todo, self._lock = todo, threading.Lock()
        self.done: dict[str, bytes] = {}

    def take(self) -> str | None:
        """The next text; None if none is left."""
        with self._lock:
            return self._todo.pop() if self._todo else None


@dataclass(frozen=True, slots=True, eq=False)
class _Fed:
    """A worker, the thread that feeds it, and whether it has answered: before that it receives no text."""

    process: subprocess.Popen[bytes]
    thread: threading.Thread
    ready: threading.Event


@contextmanager
def _started(
    count: int, target: llvm.Target, shared: _Shared, progress: Callable[[int], None]
) -> Iterator[None]:
    """Workers, each fed by a thread. All have ended at the end of the block, and are killed if it raises."""
    workers = [w for w in (_worker(target, shared) for _ in range(count)) if w is not None]
    try:
        for worker in workers:
            worker.thread.start()
        yield
        for worker in workers:
            # A worker without an answer took no text, and none is left.
            while worker.ready.is_set() and worker.thread.is_alive():
                worker.thread.join(TURN)
                progress(len(shared.done))
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
            if worker.thread.is_alive():
                worker.thread.join(PATIENCE)


def _worker(target: llvm.Target, shared: _Shared) -> _Fed | None:
    if not sys.executable:
        return None
    options = [option for option, is_set in _OPTIONS if is_set]
    paths = [path for path in sys.path if isinstance(path, str)]  # imports ignore other entries, too
    command = [sys.executable, *options, "-c", _START, *paths]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    ready = threading.Event()
    return _Fed(
        process, threading.Thread(target=_feed, args=(process, ready, target, shared), daemon=True), ready
    )


def _feed(
    process: subprocess.Popen[bytes], ready: threading.Event, target: llvm.Target, shared: _Shared
) -> None:
    """Sends texts to a worker, one at a time, as long as it answers. In a program that embeds Python,
    `sys.executable` may be another program: it does not answer."""
    into, out = process.stdin, process.stdout
    assert into is not None, "workers have pipes"
    assert out is not None, "workers have pipes"
    with suppress(OSError, ValueError), out, into:
        _write(into, "\n".join((target.triple, target.cpu, target.features)).encode())
        if _read(out) != _READY:
            return
        ready.set()
        while (text := shared.take()) is not None:
            _write(into, text.encode())
            code = _read(out)
            if code is None:
                return
            shared.done[text] = code


@dataclass(frozen=True, slots=True)
class _TargetMessage:
    """A target as a message to a worker."""

    triple: str
    cpu: str
    features: str


def serve() -> None:
    """The worker's loop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the builder receives it, too, and ends its workers
    into, out = sys.stdin.buffer, sys.stdout.buffer
    first = _read(into)
    if first is None:
        return
    target = _TargetMessage(*first.decode().split("\n"))
    _write(out, _READY)
    while (text := _read(into)) is not None:
        try:
            _write(out, llvm.compile_text(text.decode(), target))
        except AnyrtError:
            out.write(_LENGTH.pack(_FAILED))
            out.flush()


def _write(pipe: IO[bytes], content: bytes) -> None:
    pipe.write(_LENGTH.pack(len(content)))
    pipe.write(content)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """The next message; None at the end, and for a text that was not compiled."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    content = pipe.read(length) if 0 <= length <= MAX_BYTES else b""
    return content if len(content) == length else None
