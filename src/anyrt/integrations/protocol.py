"""The tensors, metadata and errors of the Open Inference Protocol, for the runtimes of MLServer and KServe.

Their clients support only NumPy's types: tensors of bfloat16 and FP8 are FP32 there.

with rejecting(InvalidInput):
    results = await served(predictor, {"x": x})
"""

from __future__ import annotations

import asyncio
import contextlib
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import numpy_dtype
from anyrt.core.errors import AnyrtError, ArgumentError
from anyrt.onnx.predictor import Metadata, Predictor
from anyrt.onnx.session import Port

T = TypeVar("T")
Array = NDArray[Any]  # Any: tensors may have any type
BUILT_IN: Final = 1  # `isbuiltin` of a type that NumPy defines
FILES: Final = ("model.plan", "model.onnx")
KINDS: Final = {"f": "FP", "i": "INT", "u": "UINT"}


def datatype(dtype: np.dtype[Any]) -> str:  # Any: see Array
    """The name of a type in requests and responses."""
    return "BOOL" if dtype.kind == "b" else f"{KINDS[dtype.kind]}{8 * dtype.itemsize}"


def client_dtype(port: Port) -> np.dtype[Any]:  # Any: see Array
    """The type for clients: float32 for bfloat16 and FP8."""
    dtype = np.dtype(numpy_dtype(port.dtype))
    return dtype if dtype.isbuiltin == BUILT_IN else np.dtype(np.float32)


def described(ports: Sequence[Port], kind: Callable[..., T]) -> list[T]:
    """The names, types and shapes of inputs or outputs, for the metadata of a model; `kind` is the server's
    record of them."""
    return [kind(name=p.name, datatype=datatype(client_dtype(p)), shape=list(p.shape)) for p in ports]


async def opened(predictor: Predictor) -> Metadata:
    """The metadata of a model, which a thread opens. Raises the errors of `Predictor`."""
    return await asyncio.to_thread(predictor.metadata)


async def served(predictor: Predictor, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs for inputs of a client, both in types that it supports, computed in a thread.

    Raises the errors of `Predictor.run`."""
    return await asyncio.to_thread(_served, predictor, inputs)


def _served(predictor: Predictor, inputs: Mapping[str, Array]) -> dict[str, Array]:
    metadata = predictor.metadata()
    types = {p.name: np.dtype(numpy_dtype(p.dtype)) for p in metadata.inputs}
    feeds = {
        n: a if types.get(n, a.dtype).isbuiltin == BUILT_IN else a.astype(types[n]) for n, a in inputs.items()
    }
    results = predictor.run(feeds)
    return {p.name: results[p.name].astype(client_dtype(p), copy=False) for p in metadata.outputs}


async def predictions(name: str, predictor: Predictor, request: Mapping[str, object]) -> dict[str, object]:
    """The response to a request of version 1 of the protocol.

    Raises ArgumentError AR304 if the model `name` has several inputs or the request has no instances, and the
    errors of `Predictor.run`."""
    ports = predictor.metadata().inputs
    if len(ports) != 1:
        wanted = "one input, or version 2 of the protocol"
        raise ArgumentError("AR304", name, f"{len(ports)} inputs", wanted)
    if "instances" not in request:
        raise ArgumentError("AR304", name, "a request without instances", "instances, a list of rows")
    x = np.asarray(request["instances"]).astype(client_dtype(ports[0]))
    results = {n: y.tolist() for n, y in (await served(predictor, {ports[0].name: x})).items()}
    return {"predictions": results.popitem()[1] if len(results) == 1 else results}


@contextlib.contextmanager
def rejecting(error: Callable[[str], Exception]) -> Iterator[None]:
    """Raise `error`, to which the server responds with status 400, for the errors of an invalid request."""
    try:
        yield
    except (AnyrtError, ValueError, KeyError) as cause:
        raise error(str(cause)) from cause


def model_file(folder: str) -> Path:
    """The plan or model in a folder, as the value of an option."""
    places = [Path(folder, name) for name in FILES if Path(folder, name).is_file()]
    if not places:
        raise ArgumentTypeError(f"{folder} has neither {' nor '.join(FILES)}")
    return places[0]
