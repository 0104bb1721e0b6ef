"""Arrays for inputs, from .npy and .npz files, images, and folders of these.

x=photo.npy       an array; types that NumPy does not know, such as bfloat16, are read from raw bytes
x=arrays.npz      its array x, or the only one
x=photo.jpg       an image, in the size and the order of axes of the input; 0 to 1 for floats
x=folder          all files of a folder, in the order of their names, along the first axis
arrays.npz        without a name: its arrays, by their names
folder            without a name: its files, by their names without extension
photo.jpg         without a name: the image for the only input
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import is_float, numpy_dtype
from anyrt.core.errors import ArgumentError, BindingError, NotSupportedError
from anyrt.plan.disk import open_regular
from anyrt.plan.plan import Binding

Array = NDArray[Any]  # Any: of any element type of the file
IMAGES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm")
ARRAYS: Final = (".npy", ".npz")
FORMS: Final = "a .npy or .npz file, an image, or a folder of these"


@dataclass(frozen=True, slots=True)
class Pixels:
    """The normalisation of an image's values, 0 to 1, for a float input."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


def feeds_of(words: Sequence[str], bindings: Sequence[Binding], pixels: Pixels) -> dict[str, Array]:
    """The arrays that `--input` names; missing inputs are omitted."""
    inputs = {b.name: b for b in bindings if b.is_input}
    out: dict[str, Array] = {}
    for word in words:
        name, path = _split(word, inputs)
        pairs = [(name, path)] if name else list(_named(path, inputs))
        for tensor, source in pairs:
            if tensor not in inputs:
                known = f"one of {', '.join(inputs)}"
                raise BindingError("AR706", "--input", repr(tensor), known, "check the spelling")
            out[tensor] = read(source, inputs[tensor], pixels)
    return out


def read(path: Path, binding: Binding, pixels: Pixels) -> Array:
    """The array of one input."""
    if path.is_dir():
        files = [p for p in sorted(path.iterdir()) if p.suffix.lower() in (*ARRAYS, *IMAGES)]
        if not files:
            raise BindingError("AR705", binding.name, f"{path}, a folder without arrays or images", FORMS)
        parts = [read(file, binding, pixels) for file in files]
        if len({part.shape[1:] for part in parts}) > 1:
            got = f"{path}, whose files have shapes {', '.join(str(p.shape) for p in parts[:4])}"
            raise BindingError("AR705", binding.name, got, "equal sizes after the first axis")
        return np.concatenate([np.atleast_1d(part) for part in parts])
    if path.suffix.lower() in IMAGES:
        return _image(path, binding, pixels)
    return _as(binding, _array(path, binding.name))


def _split(word: str, inputs: Iterable[str]) -> tuple[str, Path]:
    """(name, path) of `NAME=PATH`, or of a path alone: without a name if the path has names itself."""
    name, equals, path = word.partition("=")
    if equals and name and path and not (Path(word).exists() and name not in inputs):
        return name, Path(path)
    place = Path(word)
    if not equals and (place.is_dir() or place.suffix.lower() in (*ARRAYS, *IMAGES)):
        only = list(inputs)
        is_one = len(only) == 1 and place.suffix.lower() not in ("", ".npz")
        return (only[0] if is_one else ""), place
    raise ArgumentError("AR304", "--input", repr(word), "NAME=FILE", f"FILE is {FORMS}")


def _named(path: Path, inputs: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """The names of inputs in a folder or an archive; the archive is read again for each of them."""
    if path.is_dir():
        paths = {p.stem: p for p in sorted(path.iterdir()) if p.suffix.lower() in (*ARRAYS, *IMAGES)}
        only = list(inputs)
        if len(only) == 1 and only[0] not in paths:  # images, joined along the first axis
            paths = {only[0]: path}
        yield from paths.items()
    elif path.suffix.lower() == ".npz":
        with open_regular(path, str(path)) as file:
            names = [n.removesuffix(".npy") for n in zipfile.ZipFile(file).namelist()]
        yield from ((n, path) for n in names)
    else:
        raise ArgumentError(
            "AR304", "--input", repr(str(path)), "NAME=FILE", "the network has several inputs"
        )


def _array(path: Path, name: str) -> Array:
    try:
        with open_regular(path, name) as opened:  # NumPy cannot read a FIFO, and would block for one
            loaded = np.load(opened, allow_pickle=False)
            if isinstance(loaded, np.lib.npyio.NpzFile):
                key = name if name in loaded.files or len(loaded.files) != 1 else loaded.files[0]
                loaded = loaded[key]
    except KeyError:
        raise BindingError(
            "AR705", name, f"{path}, without an array {name!r}", f"an array {name!r}"
        ) from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        got, do = f"{path}, which NumPy cannot read", "write it with numpy.save"
        raise BindingError("AR705", name, got, "a .npy file", do) from error
    array: Array = loaded
    return array


def _as(binding: Binding, array: Array) -> Array:
    dtype = numpy_dtype(binding.dtype)
    is_raw = array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize
    return array.view(dtype) if is_raw else array


def _image(path: Path, binding: Binding, pixels: Pixels) -> Array:
    """An image in the layout of an input: (1, C, H, W) or (1, H, W, C), without the 1 for rank 3."""
    try:
        pillow = import_module("PIL.Image")
    except ImportError:
        do = "pip install pillow, or pass the array as .npy"
        raise NotSupportedError(
            "AR901", binding.name, f"{path}, an image", "an installed pillow", do
        ) from None
    sizes = [d if isinstance(d, int) else -1 for d in binding.shape]
    channels_at = next((a for a in (len(sizes) - 3, len(sizes) - 1) if a >= 0 and sizes[a] in (1, 3, 4)), -1)
    if len(sizes) not in (3, 4) or channels_at < 0:
        got = f"{path}, an image, for an input of shape {tuple(sizes)}"
        raise BindingError("AR705", binding.name, got, "an input of 1, 3 or 4 channels, first or last")
    is_first = channels_at == len(sizes) - 3
    high, wide = sizes[-2:] if is_first else sizes[-3:-1]
    with pillow.open(path) as opened:
        image = opened.convert({1: "L", 3: "RGB", 4: "RGBA"}[sizes[channels_at]])
    if (wide, high) != image.size:
        size = (wide if wide > 0 else image.width, high if high > 0 else image.height)
        image = image.resize(size, pillow.Resampling.BILINEAR)
    array: Array = np.asarray(image).reshape(image.height, image.width, -1)
    if is_float(binding.dtype):
        array = (array.astype(np.float32) / 255 - np.array(pixels.mean)) / np.array(pixels.std)
    array = array.transpose(2, 0, 1) if is_first else array
    array = array if len(sizes) == 3 else array[np.newaxis]
    return np.ascontiguousarray(array.astype(numpy_dtype(binding.dtype)))
