"""Reads the weights of a model from its file, from external files, or from the message.

reader = Reader(Path("folder"), memoryview(model))
array = reader.array(tensor)
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
from onnx import TensorProto, numpy_helper

from anyrt.api.model.weights import Weights, fixed
from anyrt.core.dtype import numpy_dtype, storage_bytes
from anyrt.core.enums import DataType
from anyrt.core.errors import GraphError, NotSupportedError, PlanError, ResourceError
from anyrt.onnx.wire import OWN
from anyrt.ops._record import Array
from anyrt.plan.disk import open_regular

D = DataType
LONGEST = 255  # maximum characters of a name in an error message
# The element types in the order of ONNX's numbers, from 1 on; None: not supported.
_TYPES: tuple[DataType | None, ...] = (
    *(
        D.FLOAT,
        D.UINT8,
        D.INT8,
        D.UINT16,
        D.INT16,
        D.INT32,
        D.INT64,
        None,
        D.BOOL,
        D.HALF,
        D.DOUBLE,
        D.UINT32,
    ),
    *(D.UINT64, None, None, D.BF16, D.FP8, D.FP8E4M3FNUZ, D.FP8E5M2, D.FP8E5M2FNUZ, D.UINT4, D.INT4, D.FP4),
    *(D.E8M0, D.UINT2, D.INT2),
)
NUMBERS: dict[DataType, int] = {t: i + 1 for i, t in enumerate(_TYPES) if t is not None}
_NAMES = {8: "strings", 14: "complex64", 15: "complex128"}


def data_type(number: int, where: str) -> DataType:
    """The element type with a number of ONNX."""
    dtype = _TYPES[number - 1] if 0 < number <= len(_TYPES) else None
    if dtype is None:
        got = _NAMES.get(number, f"element type {number}")
        raise NotSupportedError("AR901", where, got, "numbers or booleans", "compute it outside the model")
    return dtype


@dataclass(slots=True)
class Reader:
    """Reads tensors of a model with the bytes `model` and external files in `folder` (None: no files).

    loaded: arrays of the user that replace tensors of the model, by name.
    """

    folder: Path | None
    model: memoryview
    loaded: dict[str, Array] = field(default_factory=dict)
    _files: dict[str, memoryview] = field(default_factory=dict)

    def array(self, tensor: TensorProto) -> Array:
        """The tensor as an array; large ones are read-only. Raises GraphError AR418 for data that is not at
        its location, AR417 for data of another length."""
        if tensor.name and tensor.name in self.loaded:
            return self.loaded[tensor.name]
        where, dtype = f"initializer {tensor.name}", data_type(tensor.data_type, tensor.name)
        shape = tuple(tensor.dims)
        if any(d < 0 for d in shape):
            raise GraphError("AR417", where, f"shape {shape}", "dimensions of 0 or more")
        if tensor.data_location == TensorProto.EXTERNAL:
            return self._outside(where, tensor, dtype, shape)
        held = len(tensor.raw_data) if tensor.raw_data else None
        if held is not None and held != storage_bytes(dtype, prod(shape)):
            raise _length(where, held, dtype, shape)
        try:
            return fixed(np.asarray(numpy_helper.to_array(tensor)).astype(numpy_dtype(dtype), copy=False))
        except (ValueError, TypeError) as error:
            raise GraphError("AR417", where, str(error), f"{prod(shape)} elements") from None

    def _outside(self, where: str, tensor: TensorProto, dtype: DataType, shape: tuple[int, ...]) -> Array:
        refs = {e.key: e.value for e in tensor.external_data}
        try:
            offset, length = int(refs.get("offset", 0)), int(refs["length"]) if "length" in refs else None
        except ValueError:
            raise GraphError("AR418", where, f"{refs}", "an offset and a length in bytes") from None
        needed = storage_bytes(dtype, prod(shape))
        if length not in (None, needed):
            raise _length(where, length, dtype, shape)
        data = self._file(where, refs.get("location", ""))
        if offset < 0 or offset + needed > len(data):
            got, wanted = f"{len(data)} bytes", f"at least {offset + needed} bytes"
            raise GraphError("AR418", f"{where}: {refs['location']}", got, wanted)
        part = data[offset : offset + needed]
        if dtype.itemsize < 1:  # elements that share bytes are unpacked, one per byte
            copy = TensorProto(data_type=tensor.data_type, dims=shape, raw_data=bytes(part))
            return np.asarray(numpy_helper.to_array(copy))
        return np.frombuffer(part, numpy_dtype(dtype)).reshape(shape)

    def _file(self, where: str, location: str) -> memoryview:
        if location == OWN:
            return self.model
        if location not in self._files:
            with readable("AR418", f"{where}: {shortened(location)}"):
                self._files[location] = _mapped(self._inside(where, location))
        return self._files[location]

    def _inside(self, where: str, location: str) -> Path:
        """The file of a location, after resolving links. It must be inside the model's folder or, if this is
        a snapshot in a cache of models, in the folder `blobs` of the cache."""
        path = PurePosixPath(location)
        plain = "\0" not in location and not PureWindowsPath(location).drive and "\\" not in location
        if not location:
            raise GraphError(
                "AR418", where, "external data without a location", "a file in the model's folder"
            )
        if self.folder is None or path.is_absolute() or ".." in path.parts or not plain:
            got, do = (
                f"data in {shortened(location)!r}",
                "pass the path of the model, and keep the data in its folder",
            )
            raise GraphError("AR418", where, got, "a file in the model's folder", do)
        root = self.folder.resolve()
        try:  # strict: otherwise `resolve` stops silently at a cycle of links
            file = (self.folder / path).resolve(strict=True)
        except FileNotFoundError:
            file = None
        if file and not any(file.is_relative_to(place) for place in (root, *_stores(root))):
            got = f"{location!r}, a link to a file outside the folder"
            raise GraphError("AR418", where, got, "a file in the model's folder")
        if not file or file.is_dir():
            raise GraphError(
                "AR418", where, f"no file {shortened(location)!r}", "a file in the model's folder"
            )
        return file


def _stores(folder: Path) -> list[Path]:
    """The folder to which links of a model's folder may lead: `cache/blobs` for
    `cache/snapshots/version/…`."""
    return [up.parent / "blobs" for up in folder.parents if up.name == "snapshots"]


def mapped(path: Path) -> memoryview:
    """The bytes of a model's file, mapped; raises the errors of `readable`."""
    with readable("AR416", shortened(str(path))):
        return _mapped(path)


@contextmanager
def readable(code: str, where: str) -> Iterator[None]:
    """Raise GraphError with `code` if the file in this block is not readable; ResourceError AR802 without
    memory."""
    try:
        yield
    except PlanError as error:
        raise GraphError(code, where, error.got, error.wanted, "pass the path of a file") from None
    except (OSError, RuntimeError) as error:  # until Python 3.12 a cycle of links is a RuntimeError
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            lack = "no memory to map the file"
            raise ResourceError("AR802", where, lack, "memory for the file") from None
        got = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise GraphError(code, where, got, "a readable file", "check the path") from None


def _mapped(path: Path) -> memoryview:
    with open_regular(path, "model") as file:  # it does not block on a FIFO
        size = os.fstat(file.fileno()).st_size
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")


def shortened(name: str) -> str:
    """A name for messages, truncated if it is long."""
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"


def to_weights(array: Array, dtype: DataType) -> Weights:
    """The weights for `add_constant`. Fields of a message may be unaligned; they are not copied, since the
    plan aligns its constants and most of them are packed before."""
    return Weights(np.ascontiguousarray(array.reshape(-1)).astype(numpy_dtype(dtype), copy=False))


def _length(where: str, got: int, dtype: DataType, shape: tuple[int, ...]) -> GraphError:
    wanted = f"{storage_bytes(dtype, prod(shape))} bytes for {dtype} of shape {shape}"
    return GraphError("AR417", where, f"{got} bytes", wanted)
