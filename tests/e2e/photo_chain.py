"""The network of the first example: a uint8 photograph of any size to normalised planes of 640 x 640.

python photo_chain.py build plan_file       write the plan
python photo_chain.py run plan_file output  run it without a compiler, write the numbers
"""

import sys

import numpy as np

SIZE = 640
MEAN, STD = np.float32([123.7, 116.3, 103.5]), np.float32([58.4, 57.1, 57.4])


def photograph(height=96, width=131):
    """Smooth and noisy parts, odd sizes: (1, H, W, 3), uint8."""
    y, x = np.mgrid[0:height, 0:width]
    smooth = np.stack([y * 2 % 256, x * 3 % 256, (x + y) % 256], -1)
    noise = np.random.default_rng(3).integers(0, 256, smooth.shape)
    return np.where((x < width // 2)[..., None], smooth, noise)[None].astype(np.uint8)


def describe(trt, builder):
    """The network and its configuration."""
    network = builder.create_network()
    x = network.add_input("x", trt.uint8, (1, -1, -1, 3))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 64, 64, 3), (1, 1080, 1920, 3), (1, 2160, 3840, 3))
    f = network.add_cast(x, trt.float32).get_output(0)
    s = network.add_shuffle(f)
    s.first_transpose = (0, 3, 1, 2)
    r = network.add_resize(s.get_output(0))
    r.resize_mode = trt.InterpolationMode.LINEAR
    r.coordinate_transformation = trt.ResizeCoordinateTransformation.HALF_PIXEL
    r.shape = (1, 3, SIZE, SIZE)
    c = network.add_scale(r.get_output(0), trt.ScaleMode.CHANNEL, shift=-MEAN / STD, scale=1 / STD)
    c.get_output(0).name = "y"
    network.mark_output(c.get_output(0))
    config = builder.create_builder_config()
    config.add_optimization_profile(profile)
    return network, config


def expected(photo):
    """The reference in float64."""
    planes = photo[0].transpose(2, 0, 1).astype(np.float64)
    for axis in (1, 2):
        length = planes.shape[axis]
        place = np.clip((np.arange(SIZE) + 0.5) * length / SIZE - 0.5, 0, length - 1)
        low = np.floor(place).astype(int)
        high = np.minimum(low + 1, length - 1)
        part = (place - low).reshape([-1 if a == axis else 1 for a in range(3)])
        planes = np.take(planes, low, axis) * (1 - part) + np.take(planes, high, axis) * part
    return ((planes - MEAN[:, None, None]) / STD[:, None, None])[None]


def main(action, plan_file, output=None):
    """See the docstring of the module."""
    if action == "run":
        sys.modules["llvmlite"] = None  # importing it fails
    import anyrt as trt  # after the block

    logger = trt.Logger(trt.Logger.WARNING)
    if action == "build":
        builder = trt.Builder(logger)
        with open(plan_file, "wb") as file:
            file.write(builder.build_serialized_network(*describe(trt, builder)))
        return
    with open(plan_file, "rb") as file:
        engine = trt.Runtime(logger).deserialize_cuda_engine(file.read())
    np.save(output, engine.run(x=photograph())["y"])


if __name__ == "__main__":
    main(*sys.argv[1:])
