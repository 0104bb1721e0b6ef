"""Weights of a model: arrays that lie in the file, in files beside it, or in the message itself.

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
LONGEST = 255  # of a name in a message
# ONNX's numbers of element types, in their order from 1 on; None: what no network holds.
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
    """The element type that ONNX numbers so."""
    dtype = _TYPES[number - 1] if 0 < number <= len(_TYPES) else None
    if dtype is None:
        got = _NAMES.get(number, f"element type {number}")
        raise NotSupportedError("AR901", where, got, "numbers or booleans", "compute it outside the model")
    return dtype


@dataclass(slots=True)
class Reader:
    """Reads tensors of a model whose bytes are `model` and whose other files lie in `folder`, None: nowhere.

    loaded: arrays that the user loaded in place of tensors of the model, by name.
    """

    folder: Path | None
    model: memoryview
    loaded: dict[str, Array] = field(default_factory=dict)
    _files: dict[str, memoryview] = field(default_factory=dict)

    def array(self, tensor: TensorProto) -> Array:
        """The elements, shaped; long ones are read only. Raises GraphError AR418 for data that is
        not where the model says, AR417 for one of another length."""
        if tensor.name and tensor.name in self.loaded:
            return self.loaded[tensor.name]
        where, dtype = f"initializer {tensor.name}", data_type(tensor.data_type, tensor.name)
        shape = tuple(tensor.dims)
        if any(d < 0 for d in shape):
            raise GraphError("AR417", where, f"sizes {shape}", "sizes of 0 or more")
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
            got, wanted = f"{len(data)} bytes", f"at least {offset + needed}"
            raise GraphError("AR418", f"{where}: {refs['location']}", got, wanted)
        part = data[offset : offset + needed]
        if dtype.itemsize < 1:  # elements that share bytes are unpacked, one in each byte
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
        """The file of a location: inside the model's folder, as far as its links are followed, or in the
        folder `blobs` of the cache of models that the folder is a snapshot of."""
        path = PurePosixPath(location)
        plain = "\0" not in location and not PureWindowsPath(location).drive and "\\" not in location
        if not location:
            raise GraphError(
                "AR418", where, "external data without a location", "a file in the model's folder"
            )
        if self.folder is None or path.is_absolute() or ".." in path.parts or not plain:
            got, do = (
                f"data in {shortened(location)!r}",
                "give the path of the model, and keep data in its folder",
            )
            raise GraphError("AR418", where, got, "a file in the model's folder", do)
        root = self.folder.resolve()
        try:  # strictly: of a path through a circle of links, `resolve` leaves the rest unresolved
            file = (self.folder / path).resolve(strict=True)
        except FileNotFoundError:
            file = None
        if file and not any(file.is_relative_to(place) for place in (root, *_stores(root))):
            got = f"{location!r}, a link out of the folder"
            raise GraphError("AR418", where, got, "a file in the model's folder")
        if not file or file.is_dir():
            raise GraphError(
                "AR418", where, f"no file {shortened(location)!r}", "a file in the model's folder"
            )
        return file


def _stores(folder: Path) -> list[Path]:
    """Where links of a model's folder may lead: of `cache/snapshots/version/…`, `cache/blobs`."""
    return [up.parent / "blobs" for up in folder.parents if up.name == "snapshots"]


def mapped(path: Path) -> memoryview:
    """The bytes of a model's file, read when they are asked for; raises what `readable` does."""
    with readable("AR416", shortened(str(path))):
        return _mapped(path)


@contextmanager
def readable(code: str, where: str) -> Iterator[None]:
    """GraphError of `code` for a file that cannot be read inside; ResourceError AR802 where memory lacks."""
    try:
        yield
    except PlanError as error:
        raise GraphError(code, where, error.got, error.wanted, "give the path of a file") from None
    except (OSError, RuntimeError) as error:  # until Python 3.12 links in a circle are RuntimeErrors
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            lack = "no memory to map the file"
            raise ResourceError("AR802", where, lack, "memory for the file") from None
        got = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise GraphError(code, where, got, "a file that can be read", "check the path") from None


def _mapped(path: Path) -> memoryview:
    with open_regular(path, "model") as file:  # which waits for no FIFO
        size = os.fstat(file.fileno()).st_size
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")


def shortened(name: str) -> str:
    """A name as messages show it."""
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"


def to_weights(array: Array, dtype: DataType) -> Weights:
    """What `add_constant` takes. Fields of a message begin anywhere, at no multiple of their elements' size;
    they are not copied for that, since the plan's constants are aligned and most are packed before."""
    return Weights(np.ascontiguousarray(array.reshape(-1)).astype(numpy_dtype(dtype), copy=False))


def _length(where: str, got: int, dtype: DataType, shape: tuple[int, ...]) -> GraphError:
    wanted = f"{storage_bytes(dtype, prod(shape))} for {dtype} of sizes {shape}"
    return GraphError("AR417", where, f"{got} bytes", wanted)
