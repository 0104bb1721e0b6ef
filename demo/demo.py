"""A photograph through the preprocessing of a vision network, compiled, beside the same chain in NumPy.

    python demo/demo.py [photo.jpg]

uint8 NHWC of any size -> float32 -> NCHW -> linear resize to 640 x 640 -> (x - mean) / std per channel.
Prints the build report, the time of one inference and the difference from NumPy, and writes the pictures
demo/out/before.png and after.png.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

import anyrt as trt

HERE = Path(__file__).parent
SIZE = 640
MEAN = np.array([123.7, 116.3, 103.5], np.float32)
STD = np.array([58.4, 57.1, 57.4], np.float32)

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def build_plan(logger: trt.Logger) -> trt.IHostMemory:
    """The compiled chain, for photographs from 64 x 64 to 2160 x 3840."""
    builder = trt.Builder(logger)
    network = builder.create_network()
    x = network.add_input("x", trt.uint8, (1, -1, -1, 3))
    as_float = network.add_cast(x, trt.float32)
    as_float.name = "float"
    planes = network.add_shuffle(as_float.get_output(0))
    planes.first_transpose = (0, 3, 1, 2)
    planes.name = "planes"
    resize = network.add_resize(planes.get_output(0))
    resize.resize_mode = trt.InterpolationMode.LINEAR
    resize.coordinate_transformation = trt.ResizeCoordinateTransformation.HALF_PIXEL
    resize.shape = (1, 3, SIZE, SIZE)
    resize.name = "resize"
    scale = network.add_scale(resize.get_output(0), trt.ScaleMode.CHANNEL, shift=-MEAN / STD, scale=1 / STD)
    scale.name = "scale"
    scale.get_output(0).name = "y"
    network.mark_output(scale.get_output(0))

    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 64, 64, 3), (1, 1080, 1920, 3), (1, 2160, 3840, 3))
    config = builder.create_builder_config()
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise SystemExit("the build failed; the messages above say why")
    return plan


def taps(size: int, count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Floats]:
    """For each of `count` output positions: its two input positions, and its distance from the first."""
    place = np.clip((np.arange(count) + 0.5) * (size / count) - 0.5, 0, size - 1)
    low = np.floor(place).astype(np.intp)
    return low, np.minimum(low + 1, size - 1), (place - low).astype(np.float32)


def numpy_chain(photo: Bytes) -> Floats:
    """The same chain in NumPy. `photo`: (1, H, W, 3); gives (1, 3, 640, 640)."""
    planes = np.ascontiguousarray(photo[0].transpose(2, 0, 1)).astype(np.float32)
    top, bottom, down = taps(photo.shape[1], SIZE)
    left, right, along = taps(photo.shape[2], SIZE)
    rows = planes[:, top] + (planes[:, bottom] - planes[:, top]) * down[:, None]
    out = rows[:, :, left] + (rows[:, :, right] - rows[:, :, left]) * along
    return np.asarray((out - MEAN[:, None, None]) / STD[:, None, None], np.float32)[None]


def median_ms(run: Callable[[], object], seconds: float = 0.5) -> float:
    """Median time of one call in milliseconds, over at least 5 calls after a warm-up."""
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def tolerance(photo: Bytes) -> float:
    """How far the two chains may differ: positions rounded to float32, times the steepest edge."""
    position_error = max(photo.shape) * 2.0**-22
    return position_error * 255 / float(STD.min())


def save(path: Path, pixels: Bytes) -> None:
    """Write a PNG. `pixels`: (H, W, 3)."""
    Image.fromarray(pixels).save(path)
    print(f"wrote {os.path.relpath(path)}")


def main() -> int:
    """Build, run, compare, write the pictures; 0 when both chains agree."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "photo.jpg"
    photo = np.ascontiguousarray(np.asarray(Image.open(source).convert("RGB"))[None])
    logger = trt.Logger(trt.Logger.WARNING)

    start = time.perf_counter()
    plan = build_plan(logger)
    print(f"built in {time.perf_counter() - start:.2f} s, plan of {plan.nbytes} bytes\n")
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    inspector = engine.create_engine_inspector()
    print(inspector.get_engine_information(trt.LayerInformationFormat.ONELINE))
    context = engine.create_execution_context()
    assert context.set_input_shape("x", photo.shape)
    y = np.empty(tuple(context.get_tensor_shape("y")), np.float32)
    assert context.set_tensor_address("x", photo.ctypes.data)
    assert context.set_tensor_address("y", y.ctypes.data)
    assert context.execute_async_v3(0)

    ours, theirs = median_ms(lambda: context.execute_async_v3(0)), median_ms(lambda: numpy_chain(photo))
    difference, allowed = float(np.abs(y - numpy_chain(photo)).max()), tolerance(photo)
    print(f"\n{source.name}, {photo.shape[2]} x {photo.shape[1]} -> {SIZE} x {SIZE}")
    print(f"anyrt {ours:8.3f} ms an inference (median)")
    print(f"numpy {theirs:8.3f} ms, {theirs / ours:.1f} times as long")
    print(f"largest difference {difference:.2e}, allowed {allowed:.2e}")

    out = HERE / "out"
    out.mkdir(exist_ok=True)
    save(out / "before.png", photo[0])
    pixels = y[0].transpose(1, 2, 0) * STD + MEAN
    save(out / "after.png", np.clip(np.rint(pixels), 0, 255).astype(np.uint8))
    return 0 if difference <= allowed else 1


if __name__ == "__main__":
    sys.exit(main())
