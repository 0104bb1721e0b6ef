"""The body of an inference over HTTP: JSON, and the bytes of tensors behind it.

asked = read_request(model, body, header_length, limits)
header, buffers = write_response(model, asked, arrays)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np

from anyrt.serve.models import Model
from anyrt.serve.refused import Limits, Reason, Refused
from anyrt.serve.service import refuse_parameters, seconds_of
from anyrt.serve.tensors import (
    NAMES,
    Array,
    Known,
    checked_shape,
    decode_bytes,
    decode_json,
    encode_json,
    every_input,
)

Json = dict[str, Any]  # Any: parsed JSON
SHORT: Final = 4096  # bytes of JSON that a model may know
KEPT: Final = 64  # JSON of requests that a model knows
ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Asked:
    """Inputs, and for each requested output whether it is sent as bytes."""

    arrays: Mapping[str, Array]
    outputs: Mapping[str, bool]
    id: str
    seconds: float | None


def read_request(model: Model, body: bytes, length: int | None, limits: Limits) -> Asked:
    """The request in a body, whose JSON is `length` bytes, None: all of it. Clients repeat the JSON before
    tensors that are bytes: a model knows the last ones, which need not be checked again."""
    text = body[:length]
    known = model.known.get(text) if len(text) <= SHORT else None
    if known is None or len(body) != known.end:
        return _read_new(model, text, body, limits)
    data = memoryview(body)
    arrays = {d.name: decode_bytes(d, shape, data[a:b]) for d, shape, a, b in known.places}
    return Asked(arrays, known.outputs, known.id, known.seconds)


def _read_new(model: Model, text: bytes, body: bytes, limits: Limits) -> Asked:
    header = read_json(text)
    parameters = _object(header.get("parameters", {}), "parameters")
    refuse_parameters("the request", parameters)
    tensors = _tensors(header.get("inputs"), "inputs", limits)
    every_input(model.inputs, [t["name"] for t in tensors])
    rest = _Rest(memoryview(body)[len(text) :])
    arrays = {t["name"]: _array(model, t, rest, limits) for t in tensors}
    rest.end()
    check_rows(model, arrays)
    binary = bool(parameters.get("binary_data_output", False))
    id = header.get("id", "")
    if not isinstance(id, str):
        raise Refused(Reason.BAD, "id: wanted a string")
    outputs, seconds = _outputs(model, header.get("outputs"), binary, limits), seconds_of(parameters)
    ends = [*accumulate((x.nbytes for x in arrays.values()), initial=len(text))]
    if ends[-1] == len(body) and len(text) <= SHORT:  # all tensors are bytes
        spans = zip(arrays.items(), pairwise(ends), strict=True)
        places = [(model.inputs[n], x.shape, a, b) for (n, x), (a, b) in spans]
        if len(model.known) >= KEPT:
            model.known.clear()
        model.known[text] = Known(places, len(body), outputs, id, seconds)
    return Asked(arrays, outputs, id, seconds)


def check_rows(model: Model, arrays: Mapping[str, Array]) -> None:
    """If rows are joined, all inputs must have the same number, within the limit of one inference."""
    most = model.settings.max_batch_size
    rows = {x.shape[0] for x in arrays.values()} if most else set()
    if len(rows) > 1 or any(not 1 <= n <= most for n in rows):
        raise Refused(Reason.BAD, f"rows of inputs: got {sorted(rows)}, wanted one number from 1 to {most}")


def read_json(text: bytes) -> Json:
    """The JSON object of a request."""
    try:
        request = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(Reason.BAD, f"the request is no JSON: {error}"[:300]) from None
    return _object(request, "the request")


def _object(value: object, where: str) -> Json:
    if not isinstance(value, dict):
        raise Refused(Reason.BAD, f"{where}: wanted a JSON object")
    return value


def _tensors(values: object, where: str, limits: Limits) -> list[Json]:
    if not isinstance(values, list) or len(values) > limits.tensors:
        raise Refused(Reason.BAD, f"{where}: wanted a list of at most {limits.tensors} tensors")
    tensors = [_object(t, where) for t in values]
    if not all(isinstance(t.get("name"), str) for t in tensors):
        raise Refused(Reason.BAD, f"{where}: wanted a name for each tensor")
    return tensors


class _Rest:
    """The bytes behind the JSON, which tensors take in their order."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def take(self, name: str, size: object) -> memoryview:
        """The next `size` bytes."""
        if type(size) is not int or not 0 <= size <= len(self._data) - self._at:
            left = f"a number of at most {len(self._data) - self._at}, the bytes that are left"
            raise Refused(Reason.BAD, f"input {name!r}: got binary_data_size {str(size)[:40]}, wanted {left}")
        self._at += size
        return self._data[self._at - size : self._at]

    def end(self) -> None:
        """Require that all bytes were used."""
        if self._at != len(self._data):
            raise Refused(Reason.BAD, f"{len(self._data) - self._at} bytes belong to no input")


def _array(model: Model, tensor: Json, rest: _Rest, limits: Limits) -> Array:
    name = tensor["name"]
    declared = model.inputs[name]
    parameters = _object(tensor.get("parameters", {}), f"input {name!r}")
    refuse_parameters(f"input {name!r}", parameters)
    shape = checked_shape(declared, tensor.get("datatype"), tensor.get("shape"), limits)
    if "binary_data_size" in parameters:
        if "data" in tensor:
            raise Refused(Reason.BAD, f"input {name!r}: got data and binary_data_size, wanted one of them")
        return decode_bytes(declared, shape, rest.take(name, parameters["binary_data_size"]))
    return decode_json(declared, shape, tensor.get("data"))


def _outputs(model: Model, requested: object, binary: bool, limits: Limits) -> dict[str, bool]:
    known = [p.name for p in model.metadata.outputs]
    if requested is None or requested == []:
        return dict.fromkeys(known, binary)
    asked = {}
    for tensor in _tensors(requested, "outputs", limits):
        name = tensor["name"]
        if name not in known:
            raise Refused(Reason.BAD, f"output {name[:80]!r}: wanted one of {', '.join(known)}")
        parameters = _object(tensor.get("parameters", {}), f"output {name!r}")
        refuse_parameters(f"output {name!r}", parameters)
        asked[name] = bool(parameters.get("binary_data", binary))
    return asked


def write_response(model: Model, asked: Asked, arrays: Mapping[str, Array]) -> tuple[bytes, Sequence[bytes]]:
    """The JSON of a response, and the bytes that follow it."""
    types = {p.name: p.dtype for p in model.metadata.outputs}
    outputs: list[Json] = []
    buffers: list[bytes] = []
    for name, is_binary in asked.outputs.items():
        array = arrays[name]
        output: Json = {"name": name, "datatype": NAMES[types[name]], "shape": list(array.shape)}
        if is_binary:
            buffers.append(np.ascontiguousarray(array).tobytes())
            output["parameters"] = {"binary_data_size": len(buffers[-1])}
        else:
            output["data"] = encode_json(name, array, types[name])
        outputs.append(output)
    header: Json = {"model_name": model.name, "model_version": model.version, "outputs": outputs}
    if asked.id:
        header["id"] = asked.id
    return ENCODER.encode(header).encode(), buffers
