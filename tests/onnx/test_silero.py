"""The voice detectors of the package silero-vad, run as by its programs, if the package is installed.

In a branch for each rate, decoder/If returns a tensor of rank 2 for one frame, or of rank 3 for several
frames; its LSTM accepts rank 2 only."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import anyrt

SPEC = find_spec("silero_vad")
DATA = Path(SPEC.submodule_search_locations[0]) / "data" if SPEC is not None else Path()
MISSING = "the package silero-vad is not installed: make programs runs this"
pytestmark = [pytest.mark.programs, pytest.mark.skipif(SPEC is None, reason=MISSING)]
FILES = ("silero_vad", "silero_vad_16k_op15", "silero_vad_16k_sequence", "silero_vad_half",
         "silero_vad_op18_ifless", "silero_vad_openvino_16k")  # fmt: skip


def chunks(rate, rows):
    """A sound in chunks, each preceded by the last samples of the previous one."""
    size, context = (512, 64) if rate == 16000 else (256, 32)
    time = np.arange(8 * size) / rate
    noise = np.random.default_rng(rows).standard_normal((rows, 8 * size)) / 10
    sound = np.float32(noise + np.sin(2 * np.pi * (200 + 300 * time) * time))
    before = np.zeros((rows, context), np.float32)
    for at in range(0, 8 * size, size):
        chunk = np.concatenate([before, sound[:, at : at + size]], 1)
        yield chunk
        before = chunk[:, -context:]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("rate", [16000, 8000])
@pytest.mark.parametrize("name", FILES)
def test_detectors_agree_with_onnx_runtime(name, rate, rows):
    runtime = pytest.importorskip("onnxruntime")
    ours = anyrt.load(DATA / f"{name}.onnx")
    theirs = runtime.InferenceSession(DATA / f"{name}.onnx", providers=["CPUExecutionProvider"])
    sizes = {x.name: tuple(d if d > 0 else rows for d in x.shape) for x in ours.inputs}
    if (rate == 8000 and "sr" not in sizes) or (rows > 1 and 1 in sizes.get("state", ())):
        pytest.skip(f"{name} takes one rate, or one row")
    kept = {x: np.zeros(sizes[x], np.float32) for x in ("state", "h", "c") if x in sizes}
    other = dict(kept)
    for chunk in chunks(rate, rows):
        sound = {x: chunk for x in ("input",) if x in sizes} | (
            {"sr": np.array(rate, np.int64)} if "sr" in sizes else {}
        )
        actual, expected = ours.run({**sound, **kept}), theirs.run(None, {**sound, **other})
        for got, want in zip(actual.values(), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-5)
        kept, other = (
            dict(zip(kept, [*actual.values()][1:], strict=True)),
            dict(zip(other, expected[1:], strict=True)),
        )
