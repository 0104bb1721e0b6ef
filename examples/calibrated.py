"""A small convolutional classifier, trained here, in float32, with narrower types allowed, and in int8
by calibrators of each kind, which show batches and keep what was learnt in a cache.

python examples/calibrated.py
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import anyrt as trt

Weights = dict[str, np.ndarray]
KINDS = (
    trt.IInt8EntropyCalibrator2,
    trt.IInt8EntropyCalibrator,
    trt.IInt8MinMaxCalibrator,
    trt.IInt8LegacyCalibrator,
)


@dataclass(frozen=True)
class Size:
    """Of images, the channels of two convolutions, and how many classes there are."""

    image: int = 8
    channels: tuple[int, int] = (8, 16)
    classes: int = 10


def images(size: Size, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy blots at places that their class says, of any brightness, shifted a little; and the classes."""
    random = np.random.default_rng(seed)
    blots = np.random.default_rng(0).standard_normal((size.classes, size.image, size.image))
    blots = np.array([np.roll(b, 1, 0) + b + np.roll(b, 1, 1) for b in blots])
    own = random.integers(0, size.classes, count)
    shifts = random.integers(-1, 2, (count, 2))
    shifted = np.array([np.roll(blots[k], s, (0, 1)) for k, s in zip(own, shifts.tolist(), strict=True)])
    light = random.exponential(1, (count, 1, 1)) + 0.5
    noisy = shifted * light + 1.6 * random.standard_normal(shifted.shape)
    return noisy[:, None].astype(np.float32), own


def windows(x: np.ndarray) -> np.ndarray:
    """(images, channels, places, places, 3, 3), two apart, with a border of zeros."""
    return sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))[:, :, ::2, ::2]


def convolved(under: np.ndarray, kernel: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A convolution of what lies under each window, and its positive part."""
    sums = np.einsum("ncxyuv,kcuv->nkxy", under, kernel, optimize=True)
    return np.maximum(sums + bias[:, None, None], 0)


def trained(size: Size, steps: int = 150) -> Weights:
    """Weights after some steps of gradient descent."""
    random, (first, second) = np.random.default_rng(1), size.channels
    edge = (size.image + 3) // 4
    shapes = {"0": (first, 1, 3, 3), "1": (second, first, 3, 3), "2": (size.classes, second * edge * edge)}
    w: Weights = {}
    for name, shape in shapes.items():
        noise = random.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5
        w[f"{name}.weight"], w[f"{name}.bias"] = noise.astype(np.float32), np.zeros(shape[0], np.float32)
    for step in range(steps):
        x, wanted = images(size, 64, 100 + step)
        slopes = gradients(w, x, wanted)
        for name, slope in slopes.items():
            w[name] -= np.float32(0.1 / (1 + step / 100)) * slope
    return w


def gradients(w: Weights, x: np.ndarray, wanted: np.ndarray) -> Weights:
    """What more of each weight adds to the loss."""
    under = windows(x)
    a = convolved(under, w["0.weight"], w["0.bias"])
    over = windows(a)
    b = convolved(over, w["1.weight"], w["1.bias"])
    flat = b.reshape(len(b), -1)
    scores = flat @ w["2.weight"].T + w["2.bias"]
    powers = np.exp(scores - scores.max(1, keepdims=True))
    slope = powers / powers.sum(1, keepdims=True)
    slope[np.arange(len(x)), wanted] -= 1
    slope /= len(x)
    of_b = (slope @ w["2.weight"]).reshape(b.shape) * (b > 0)
    each = np.einsum("nkxy,kcuv->ncxyuv", of_b, w["1.weight"], optimize=True)
    of_a = np.zeros((*a.shape[:2], a.shape[2] + 2, a.shape[3] + 2), np.float32)
    for u in range(3):
        for v in range(3):
            of_a[:, :, u : u + a.shape[2] : 2, v : v + a.shape[3] : 2] += each[..., u, v]
    of_a = of_a[:, :, 1:-1, 1:-1] * (a > 0)
    return {
        "0.weight": np.einsum("nkxy,ncxyuv->kcuv", of_a, under, optimize=True),
        "0.bias": of_a.sum((0, 2, 3)),
        "1.weight": np.einsum("nkxy,ncxyuv->kcuv", of_b, over, optimize=True),
        "1.bias": of_b.sum((0, 2, 3)),
        "2.weight": slope.T @ flat,
        "2.bias": slope.sum(0),
    }


def describe(network: trt.INetworkDefinition, size: Size, w: Weights) -> None:
    """From "images" to "scores", in float32."""
    x = network.add_input("images", trt.float32, (-1, 1, size.image, size.image))
    for n in range(2):
        kernel = w[f"{n}.weight"]
        layer = network.add_convolution_nd(x, len(kernel), (3, 3), kernel, w[f"{n}.bias"])
        layer.stride_nd, layer.padding_nd = (2, 2), (1, 1)
        x = network.add_activation(layer.get_output(0), trt.ActivationType.RELU).get_output(0)
    flat = network.add_shuffle(x)
    flat.reshape_dims = (0, -1)
    right = network.add_constant(w["2.weight"].shape, w["2.weight"]).get_output(0)
    none, turned = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE
    y = network.add_matrix_multiply(flat.get_output(0), none, right, turned).get_output(0)
    bias = network.add_constant((1, size.classes), w["2.bias"]).get_output(0)
    y = network.add_elementwise(y, bias, trt.ElementWiseOperation.SUM).get_output(0)
    y.name = "scores"
    network.mark_output(y)


def calibrator(kind: type, batches: list[np.ndarray], cache: Path) -> trt.IInt8Calibrator:
    """One of `kind` that shows these batches, and keeps what was learnt in a file."""

    class Batches(kind):
        def __init__(self) -> None:
            super().__init__()
            self.left = iter(batches)

        def get_batch_size(self) -> int:
            return len(batches[0])

        def get_batch(self, names: list[str]) -> list[int] | None:
            self.batch = next(self.left, None)
            return None if self.batch is None else [self.batch.ctypes.data]

        def read_calibration_cache(self) -> bytes | None:
            return cache.read_bytes() if cache.exists() else None

        def write_calibration_cache(self, text: memoryview) -> None:
            cache.write_bytes(text)

    return Batches()


def build(
    size: Size,
    w: Weights,
    flags: tuple[trt.BuilderFlag, ...] = (),
    asked: trt.IInt8Calibrator | None = None,
) -> trt.ICudaEngine:
    """The engine for 1 to 4096 images, with these permissions."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network, config = builder.create_network(), builder.create_builder_config()
    describe(network, size, w)
    shape = (1, size.image, size.image)
    for best in (64, 1024):
        profile = builder.create_optimization_profile()
        profile.set_shape("images", (1, *shape), (best, *shape), (4096, *shape))
        if best == 64:
            config.set_calibration_profile(profile)
        else:
            config.add_optimization_profile(profile)
    for flag in flags:
        config.set_flag(flag)
    config.int8_calibrator = asked
    engine = builder.build_engine_with_config(network, config)
    if engine is None:
        raise SystemExit("the build failed; the log says why")
    return engine


def main() -> None:
    """Train, build, and compare how many images each engine tells right."""
    size = Size()
    w = trained(size)
    x, wanted = images(size, 4096, 7)
    batches = [images(size, 64, 1000 + n)[0] for n in range(8)]
    exact = build(size, w).run(images=x)["scores"]
    results = {"float32": exact}
    for name, flag in (("float16", trt.BuilderFlag.FP16), ("bfloat16", trt.BuilderFlag.BF16)):
        results[f"{name} allowed"] = build(size, w, (flag,)).run(images=x)["scores"]
    with TemporaryDirectory() as folder:
        for kind in KINDS:
            name = kind.__name__.removeprefix("IInt8")
            asked = calibrator(kind, batches, Path(folder, name))
            results[f"int8, {name}"] = build(size, w, (trt.BuilderFlag.INT8,), asked).run(images=x)["scores"]
    for name, scores in results.items():
        right = 100 * (scores.argmax(1) == wanted).mean()
        alike = 100 * (scores.argmax(1) == exact.argmax(1)).mean()
        print(f"{name:32} {right:5.1f} % right, {alike:5.1f} % as float32 says")


if __name__ == "__main__":
    main()
