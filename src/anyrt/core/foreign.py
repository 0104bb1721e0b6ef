"""The format of a file that is not the expected one, recognised by its first bytes, and how to convert it to
a model.

>>> seems(b"PK\\x03\\x04 archive/data.pkl").do
'torch.onnx.export(model, inputs, "model.onnx") writes a model'
>>> seems(b"plain").what
'text'
>>> seems(b"\\x08\\x0a") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Foreign:
    """A kind of file; `do`: how to get an ONNX model instead."""

    what: str
    do: str


# UTF-8 without control characters; the last character may be cut.
_LINES: Final = re.compile(rb"(?:[\t\n\r\f -~]|[\xc2-\xf4][\x80-\xbf]{1,3})+[\xc2-\xf4]?")
_TORCH: Final = 'torch.onnx.export(model, inputs, "model.onnx") writes a model'
_KERAS: Final = "python -m tf2onnx.convert writes a model"
_AGAIN: Final = "fetch the file itself"
# (offset, bytes there, what it is, what to do); the first that fits.
_STARTS: Final[Sequence[tuple[int, bytes, str, str]]] = (
    (0, b"\x89AnyRT\r\n", "a plan of AnyRT", "commands take it as a .plan file"),
    (0, b"AnyRTx1\n", "compiled code that `anyrt cache export` wrote", "anyrt cache import reads it"),
    (0, b"ftrt", "an engine of TensorRT", "build it again from its model"),
    (4, b"TFL3", "a TensorFlow Lite model", "python -m tf2onnx.convert --tflite writes a model"),
    (0, b"\x89HDF", "an HDF5 file, as Keras writes weights", _KERAS),
    (0, b"GGUF", "a GGUF file of weights", "export the model from its own library"),
    (0, b"\x93NUMPY", "an array of NumPy", "give it to --input"),
    (0, b"version https://git-lfs", "a pointer of Git LFS, not the file itself", "git lfs pull"),
    (0, b"\x1f\x8b", "a gzip archive", "gunzip it"),
    (0, b"Rar!", "a RAR archive", "unpack it"),
    (0, b"7z\xbc\xaf", "a 7z archive", "unpack it"),
    (0, b"\x7fELF", "a program or a shared object", _AGAIN),
    (0, b"%PDF", "a PDF document", _AGAIN),
    (0, b"\x89PNG", "an image", "give it to --input"),
    (0, b"\xff\xd8\xff", "an image", "give it to --input"),
    (0, b"\x80\x02", "a pickle of Python, as older PyTorch writes", _TORCH),
    (0, b"\x80\x03", "a pickle of Python", _TORCH),
    (0, b"\x80\x04", "a pickle of Python", _TORCH),
    (0, b"\x80\x05", "a pickle of Python", _TORCH),
)


def seems(start: bytes) -> Foreign | None:
    """The kind of a file that begins with these bytes; None if it is unknown."""
    if not start:
        return Foreign("an empty file", _AGAIN)
    for at, bytes_, what, do in _STARTS:
        if start[at:].startswith(bytes_):
            return Foreign(what, do)
    return _archive(start) if start.startswith(b"PK\x03\x04") else _text(start)


def _archive(start: bytes) -> Foreign:
    if b"data.pkl" in start or b"byteorder" in start or b"/code/" in start:
        return Foreign("a checkpoint of PyTorch", _TORCH)
    if b"config.json" in start or b"model.weights.h5" in start:
        return Foreign("a model of Keras", _KERAS)
    return Foreign("a ZIP archive", "unpack it")


def _text(start: bytes) -> Foreign | None:
    head = start[:512].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return Foreign("a page of HTML, as servers send in place of a missing file", _AGAIN)
    if head.startswith((b"<?xml", b"<net")):
        return Foreign("XML, as OpenVINO describes models", "export the model it was made from")
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 1 << 32:
        return Foreign(
            "weights in safetensors", "export the model from its own library: weights alone are none"
        )
    if head.startswith((b"{", b"[")):
        return Foreign("JSON", "give the model")
    if head.startswith((b"import ", b"from ", b"def ", b'"""', b"#!")):
        return Foreign("a program", "name a script of Python FILE.py or FILE.py:FUNCTION")
    return Foreign("text", "pass the file itself, or its bytes") if _LINES.fullmatch(start) else None
