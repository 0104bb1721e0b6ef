"""Files as inputs of a model, and its outputs as files.

read(Path("photo.png"), ports, Pixels()) -> [{"x": array}]
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import numpy_dtype
from anyrt.core.errors import ArgumentError
from anyrt.onnx.predictor import Predictor
from anyrt.onnx.session import Port
from anyrt.plan.disk import open_regular, write_atomically

Arrays = dict[str, NDArray[Any]]  # Any: of any element type
IMAGES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
TABLE: Final = ".parquet"
KINDS: Final = (".npz", ".npy", *IMAGES, TABLE)


@dataclass(frozen=True, slots=True)
class Pixels:
    """The conversion of an image to numbers: (pixel / 255 − mean) / std, for each channel or for all."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


@dataclass(frozen=True, slots=True)
class Work:
    """An input file, its target, and how rows of tables are joined to batches."""

    source: Path
    target: Path
    pixels: Pixels
    rows: int


def todo(source: Path, out: Path, pixels: Pixels, rows: int) -> list[Work]:
    """Each input file of `source`, a folder or one file, with its target; ArgumentError if there is none."""
    files = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())
    files = [f for f in files if f.suffix.lower() in KINDS]
    if not files:
        raise ArgumentError("AR304", str(source), "no input file", f"files of type {', '.join(KINDS)}")
    base = source.parent if source.is_file() else source
    return [Work(f, out / _named(f.relative_to(base)), pixels, rows) for f in files]


def _named(path: Path) -> Path:
    """a/b.npz and tables keep their names; photo.png becomes photo.png.npz, so that targets are unique."""
    return path if path.suffix in (".npz", TABLE) else path.with_name(path.name + ".npz")


def is_done(work: Work) -> bool:
    """Whether the results exist and are no older than the file."""
    try:
        return work.target.stat().st_mtime_ns >= work.source.stat().st_mtime_ns
    except OSError:
        return False


def run(predictor: Predictor, work: Work) -> int:
    """Compute one file's results and write them atomically; returns the number of inferences."""
    work.target.parent.mkdir(parents=True, exist_ok=True)
    if work.source.suffix == TABLE:
        return _table(predictor, work)
    inputs = _read(work, predictor.metadata().inputs)
    held = io.BytesIO()
    np.savez(held, allow_pickle=False, **predictor.run(inputs))
    write_atomically(work.target, [held.getbuffer()])
    return 1


def _read(work: Work, ports: Sequence[Port]) -> Arrays:
    suffix = work.source.suffix.lower()
    if suffix in IMAGES:
        return {ports[0].name: _image(work, _only(work, ports))}
    with open_regular(work.source, str(work.source)) as file:
        try:
            loaded = np.load(file, allow_pickle=False)
            if suffix == ".npy":
                return {_only(work, ports).name: np.asarray(loaded)}
            return {p.name: loaded[p.name] for p in ports}
        except (ValueError, KeyError, EOFError, OSError) as error:
            wanted = f"arrays {', '.join(p.name for p in ports)}"
            raise ArgumentError("AR304", str(work.source), str(error), wanted) from None


def _only(work: Work, ports: Sequence[Port]) -> Port:
    if len(ports) != 1:
        names = ", ".join(p.name for p in ports)
        raise ArgumentError("AR304", str(work.source), f"inputs {names}", "one input", "pass inputs as .npz")
    return ports[0]


def _image(work: Work, port: Port) -> NDArray[Any]:  # Any: the element type is that of the port
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise ArgumentError(
            "AR304", str(work.source), "no module PIL", "the package pillow", "pip install pillow"
        ) from None
    shape, dtype = port.shape, numpy_dtype(port.dtype)
    first = len(shape) == 4 and shape[1] in (1, 3)  # channels before rows
    if len(shape) != 4 or not (first or shape[3] in (1, 3)):
        do = "pass other inputs as .npz"
        raise ArgumentError(
            "AR304", port.name, f"shape {shape}", "an image: (N, C, H, W) or (N, H, W, C)", do
        )
    height, width = shape[2:] if first else shape[1:3]
    with Image.open(work.source) as opened:
        image = opened.convert("RGB" if shape[1 if first else 3] == 3 else "L")
        if -1 not in (height, width):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        x = np.asarray(image).reshape(image.height, image.width, -1)
    if dtype.kind == "f":
        mean, std = (np.array(v, np.float32) for v in (work.pixels.mean, work.pixels.std))
        x = (x / np.float32(255) - mean) / std
    x = x.astype(dtype)[None]
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2) if first else x)


def _table(predictor: Predictor, work: Work) -> int:
    """Write a copy of a table with a column for each output; each input is a column of numbers or lists."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        do = "pip install anyrt[batch]"
        raise ArgumentError("AR304", str(work.source), "no module pyarrow", "pyarrow", do) from None
    ports, runs, tables = predictor.metadata().inputs, 0, []
    for batch in pq.ParquetFile(work.source).iter_batches(batch_size=work.rows):
        outputs = predictor.run({p.name: _column(batch, p, work) for p in ports})
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, y in outputs.items():
            flat = y.reshape(len(batch), -1)
            flat = flat.astype(np.float32) if flat.dtype.name == "bfloat16" else flat
            columns[name] = pa.array(list(flat) if y.ndim > 1 else flat[:, 0])
        tables.append(pa.table(columns))
        runs += 1
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables(tables) if tables else pq.read_table(work.source), sink)
    write_atomically(work.target, [memoryview(sink.getvalue())])
    return runs


def _column(batch: Any, port: Port, work: Work) -> NDArray[Any]:  # Any: pyarrow publishes no types
    if port.name not in batch.schema.names:
        raise ArgumentError(
            "AR304", str(work.source), f"no column {port.name!r}", f"one of {', '.join(batch.schema.names)}"
        )
    if port.shape[:1] != (-1,):
        do = "export the model with a dynamic first dimension"
        raise ArgumentError("AR304", port.name, f"shape {port.shape}", "-1 as first dimension, for rows", do)
    rest = [n if n >= 0 else -1 for n in port.shape[1:]]
    rows = np.asarray(batch.column(port.name).to_pylist(), numpy_dtype(port.dtype))
    return rows.reshape(len(batch), *rest)


def pending(every: Sequence[Work]) -> Iterator[Work]:
    """The files whose results are missing or older than the file."""
    return (w for w in every if not is_done(w))
