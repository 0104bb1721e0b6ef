"""Reads a plan from a path, a buffer or a stream reader, with as few copies as possible."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from anyrt.api.edge.hints import FAILED
from anyrt.api.edge.interfaces import IStreamReader, IStreamReaderV2, call_user
from anyrt.api.edge.quiet import type_name, wrong_type
from anyrt.api.run.host_memory import IHostMemory
from anyrt.backends import loader
from anyrt.compiler import cached
from anyrt.core.errors import ArgumentError, PlanError
from anyrt.plan.checksum import Mixer
from anyrt.plan.disk import open_regular
from anyrt.plan.file import PREAMBLE_BYTES, PlanFile, map_plan, read_plan, stated_bytes

CHUNK: Final = 1 << 24
# To check before each inference whether a mapped file is intact takes 1 µs: as long as a small network.
MAP_BYTES: Final = 1 << 20


@cache
def mixer() -> Mixer:
    """The function that mixes checksums in this process."""
    return cached.mixer(loader.device(), loader.target)


def read_source(source: object, check_weights: bool) -> PlanFile:
    """Read and check the plan; TypeError for any other object."""
    match source:
        case os.PathLike():
            return _read_path(Path(source), check_weights)
        case IStreamReader() | IStreamReaderV2():
            return read_plan(_read_all(source), check_weights, mixer)
    try:
        data = memoryview(source)  # type: ignore[arg-type]  # raises unless it is a buffer
    except TypeError:
        wanted = "the bytes of a plan, a pathlib.Path or a stream reader"
        do = FAILED if source is None else ""
        if isinstance(source, str):
            do = f"write pathlib.Path({source!r})"
        raise wrong_type("deserialize_cuda_engine", source, wanted, do) from None
    if not data.c_contiguous:
        raise PlanError("AR605", "plan", "a strided buffer", "contiguous bytes", "pass bytes(buffer)")
    return read_plan(data.toreadonly() if isinstance(source, IHostMemory) else data, check_weights, mixer)


def _read_path(path: Path, check_weights: bool) -> PlanFile:
    try:
        with open_regular(path, "plan") as file:
            if os.fstat(file.fileno()).st_size < MAP_BYTES:
                return replace(read_plan(file.read(), check_weights, mixer), path=path)
        return map_plan(path, check_weights, mixer)
    except OSError as error:
        got, do = f"{path} ({error.strerror or error})", "check the path"
        raise ArgumentError("AR304", "deserialize_cuda_engine", got, "a readable file", do) from None


def _read_all(reader: IStreamReader | IStreamReaderV2) -> memoryview:
    """Read the plan from a user's reader, with one copy to aligned memory of the size that the plan states.

    Readers may reject a request for more than they have, so nothing beyond the plan's end is requested.
    """
    start = chunk = _read(reader, PREAMBLE_BYTES)
    while chunk and len(start) < PREAMBLE_BYTES:
        chunk = _read(reader, PREAMBLE_BYTES - len(start))
        start += chunk
    total = stated_bytes(start)
    if total is None:
        return memoryview(start)
    memory = loader.device().allocate(max(total, len(start))).bytes.data
    memory[: len(start)] = start
    at = len(start)
    while at < total and (chunk := _read(reader, min(CHUNK, total - at))):
        if at + len(chunk) > total:
            raise PlanError("AR604", "plan", got=f"more than {total} bytes", wanted=f"{total} bytes")
        memory[at : at + len(chunk)] = chunk
        at += len(chunk)
    return memory[:at].toreadonly()


def _read(reader: IStreamReader | IStreamReaderV2, size: int) -> bytes:
    match reader:
        case IStreamReader():
            chunk = call_user(b"", reader.read, size)
        case IStreamReaderV2():
            chunk = call_user(b"", reader.read, size, 0)
    try:
        return bytes(memoryview(chunk))
    except TypeError:
        got, do = type_name(chunk), "return bytes from read, and b'' at the end of the stream"
        raise ArgumentError("AR311", "stream reader", got, "bytes", do) from None
