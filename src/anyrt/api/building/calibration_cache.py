"""Calibration caches in TensorRT's text format: a line of version and algorithm, and a line per tensor.

>>> text = print_cache(CalibrationAlgoType.ENTROPY_CALIBRATION_2, {"input": 0.0078740157})
>>> text.splitlines()[1], parse_cache(text.encode(), CalibrationAlgoType.ENTROPY_CALIBRATION_2)
('input: 3c010204', {'input': 0.007874015718698502})
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Final

from anyrt import __version__
from anyrt.core.enums import CalibrationAlgoType
from anyrt.core.errors import ArgumentError

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in collections.abc from Python 3.12

NAMES: Final = {
    CalibrationAlgoType.LEGACY_CALIBRATION: "LegacyCalibration",
    CalibrationAlgoType.ENTROPY_CALIBRATION: "EntropyCalibration",
    CalibrationAlgoType.ENTROPY_CALIBRATION_2: "EntropyCalibration2",
    CalibrationAlgoType.MINMAX_CALIBRATION: "MinMaxCalibration",
}
MOST_BYTES: Final = 1 << 26
_DIGITS: Final = re.compile("[0-9a-fA-F]{8}")
_HEAD: Final = re.compile(r"TRT-\d+-(\w+)")
_WHERE: Final = "calibration cache"


def print_cache(algorithm: CalibrationAlgoType, scales: Mapping[str, float]) -> str:
    """The text for scales by the names of tensors."""
    major, minor, patch = (int(n) for n in __version__.split("."))
    lines = [f"TRT-{major * 10000 + minor * 100 + patch}-{NAMES[algorithm]}"]
    lines += [f"{name}: {struct.pack('>f', scale).hex()}" for name, scale in scales.items()]
    return "\n".join(lines) + "\n"


def parse_cache(content: Buffer, algorithm: CalibrationAlgoType | None) -> dict[str, float]:
    """The scales of tensors with a range; ArgumentError AR332 if the cache is invalid or of an algorithm
    other than `algorithm` (None: any)."""
    nbytes = memoryview(content).nbytes
    if nbytes > MOST_BYTES:
        raise _refused(f"{nbytes} bytes", f"at most {MOST_BYTES} bytes")
    try:
        lines = (
            bytes(content).decode("utf-8-sig").rstrip("\n").split("\n")
        )  # names may contain other line separators
    except UnicodeDecodeError:
        raise _refused("bytes that are not UTF-8", "a text: TRT-101600-EntropyCalibration2 ...") from None
    head = _HEAD.fullmatch(lines[0].strip())
    if head is None or head[1] not in NAMES.values():
        raise _refused(f"{lines[0][:80]!r} as the first line", "TRT-101600-EntropyCalibration2")
    if algorithm is not None and head[1] != NAMES[algorithm]:
        raise _refused(f"scales by {head[1]}", f"by {NAMES[algorithm]}, the algorithm of the calibrator")
    every = (_scale(n, line) for n, line in enumerate(lines[1:], 2) if line.strip())
    return {name: scale for name, scale in every if scale}


def _scale(number: int, line: str) -> tuple[str, float]:
    """The tensor and its scale; 0 if it has no range."""
    name, _, digits = line.rstrip().rpartition(": ")
    (scale,) = struct.unpack(">f", bytes.fromhex(digits)) if _DIGITS.fullmatch(digits) else (-1.0,)
    if not name or not 0 <= scale < inf:
        raise _refused(f"{line[:80]!r} as line {number}", "a name and 8 hexadecimal digits: input: 3c010a14")
    return name, scale


def _refused(got: str, wanted: str) -> ArgumentError:
    do = "delete the cache to calibrate again"
    return ArgumentError("AR332", _WHERE, got, wanted, do)
