"""Calibration as in users' programs: each kind of calibrator, caches, results of int8 engines, hostile
calibrators."""

import mmap
import re
import struct

import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic

INT8, RELU, NONE = trt.BuilderFlag.INT8, trt.ActivationType.RELU, trt.MatrixOperation.NONE
SHAPE = (2, 3, 8, 8)
KINDS = [
    (trt.IInt8EntropyCalibrator2, "EntropyCalibration2"),
    (trt.IInt8EntropyCalibrator, "EntropyCalibration"),
    (trt.IInt8MinMaxCalibrator, "MinMaxCalibration"),
    (trt.IInt8LegacyCalibrator, "LegacyCalibration"),
]


def batches(count=4, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(count)]


class Watching:
    """The common part of the calibrators below: batches, and a cache in memory."""

    def fill(self, data, cache=None):
        self.data, self.cache, self.asked = iter(data), cache, []

    def get_batch_size(self):
        return SHAPE[0]

    def get_batch(self, names):
        self.asked.append(names)
        self.batch = next(self.data, None)
        return None if self.batch is None else [self.batch.ctypes.data]

    def read_calibration_cache(self):
        return self.cache

    def write_calibration_cache(self, cache):
        self.cache = bytes(cache)


def calibrator(kind, data=None, cache=None, **more):
    instance = type("Mine", (Watching, kind), {"__init__": kind.__init__, **more})()
    instance.fill(batches() if data is None else data, cache)
    return instance


def describe(network, shape=SHAPE):
    """relu(convolution), the mean of each channel, and a product with a matrix."""
    rng = np.random.default_rng(1)
    numbers = [rng.standard_normal(s).astype(np.float32) for s in ((8, 3, 3, 3), (8,), (8, 4))]
    x = network.add_input("x", trt.float32, shape)
    conv = network.add_convolution_nd(x, 8, (3, 3), numbers[0], numbers[1])
    conv.name = "conv"
    y = network.add_activation(conv.get_output(0), RELU).get_output(0)
    mean = network.add_reduce(y, trt.ReduceOperation.AVG, 0b1100, False)
    mean.get_output(0).name = "mean"
    right = network.add_constant((8, 4), numbers[2]).get_output(0)
    last = network.add_matrix_multiply(mean.get_output(0), NONE, right, NONE)
    last.name, last.get_output(0).name = "last", "y"
    network.mark_output(last.get_output(0))
    return numbers


@pytest.fixture
def build(log):
    """An engine of the network above, or None; `flags` and `config` change the build."""
    builder = trt.Builder(log)

    def make(built=None, flags=(INT8,), shape=SHAPE, prepare=lambda network, config: None):
        network, config = builder.create_network(), builder.create_builder_config()
        describe(network, shape)
        for flag in flags:
            config.set_flag(flag)
        config.int8_calibrator = built
        prepare(network, config)
        return builder.build_engine_with_config(network, config)

    return make


def scales_of(cache):
    lines = cache.decode().splitlines()
    return {name: struct.unpack(">f", bytes.fromhex(digits))[0]
            for name, digits in (line.split(": ") for line in lines[1:])}  # fmt: skip


def in_codes(x, scale):
    return np.clip(np.rint(x / np.float32(scale)), -128, 127).astype(np.int64)


def reference(x, scales, numbers):
    """The expected output of an int8 engine, computed with weight codes whose largest magnitude per output is
    127."""
    kernel, bias, matrix = numbers
    steps, wide = np.abs(kernel).max((1, 2, 3)) / 127, np.abs(matrix).max(0) / 127
    codes = np.rint(kernel / steps[:, None, None, None]).astype(np.int64)
    under = np.lib.stride_tricks.sliding_window_view(in_codes(x, scales["x"]), (3, 3), (2, 3))
    sums = np.einsum("nchwij,kcij->nkhw", under, codes)
    y = np.maximum(sums * (steps * scales["x"])[:, None, None] + bias[:, None, None], 0).mean((2, 3))
    return in_codes(y, scales["mean"]) @ np.rint(matrix / wide).astype(np.int64) * (wide * scales["mean"])


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_each_kind_of_calibrator_writes_a_cache_of_its_name(build, kind, name):
    instance = calibrator(kind)
    assert build(instance) is not None
    assert instance.cache.decode().splitlines()[0] == f"TRT-101600-{name}"
    assert [*scales_of(instance.cache)] == ["x", "mean"]
    assert instance.asked == [["x"]] * 5  # the last one receives None


def test_an_engine_multiplies_codes_of_tensors_and_weights(build, net):
    instance = calibrator(trt.IInt8EntropyCalibrator2)
    engine, x = build(instance), batches(1, 7)[0]
    actual, expected = engine.run(x=x)["y"], reference(x, scales_of(instance.cache), describe(net))
    step = scales_of(instance.cache)["mean"] * 127 / 10
    assert np.abs(actual - expected).max() < step
    assert np.mean(np.abs(actual - expected) < 1e-4) > 0.7  # all but those next to a tie


def test_minima_and_maxima_are_the_largest_magnitudes(build):
    instance = calibrator(trt.IInt8MinMaxCalibrator)
    build(instance)
    most = max(np.abs(b).max() for b in batches())
    assert scales_of(instance.cache)["x"] == pytest.approx(most / 127, rel=1e-6)


@pytest.mark.parametrize(("quantile", "cutoff"), [(0.9, 1.0), (1.0, 0.5), (1.0, 1.0)])
def test_a_legacy_calibrator_names_a_quantile_and_a_cutoff(build, quantile, cutoff):
    instance = calibrator(trt.IInt8LegacyCalibrator, get_quantile=lambda self: quantile,
                      get_regression_cutoff=lambda self: cutoff)  # fmt: skip
    build(instance)
    every = np.abs(np.concatenate(batches()))
    expected = min(np.quantile(every, quantile), cutoff * every.max())
    assert scales_of(instance.cache)["x"] == pytest.approx(expected / 127, rel=0.01)


def test_a_cache_is_written_as_a_memoryview_as_polygraphy_reads_it(build):
    def kept(self, cache):
        self.cache = cache.tobytes()

    instance = calibrator(trt.IInt8MinMaxCalibrator, write_calibration_cache=kept)
    build(instance)
    assert instance.cache.startswith(b"TRT-101600-MinMaxCalibration")


def test_a_cache_takes_the_place_of_batches(build):
    first = calibrator(trt.IInt8EntropyCalibrator2)
    engine = build(first)
    second = calibrator(trt.IInt8EntropyCalibrator2, [], first.cache)
    again, x = build(second), batches(1, 3)[0]
    assert second.asked == []
    assert (again.run(x=x)["y"] == engine.run(x=x)["y"]).all()


def test_a_cache_that_lacks_a_tensor_says_which_is_not_computed_in_int8(build, log):
    first = calibrator(trt.IInt8EntropyCalibrator2)
    build(first)
    half = b"\n".join(line for line in first.cache.split(b"\n") if not line.startswith(b"mean"))
    assert build(calibrator(trt.IInt8EntropyCalibrator2, [], half)) is not None
    assert any("no scale for 'mean'" in line for line in log.lines)


def test_ranges_that_are_set_win_over_a_calibrator(build, log):
    instance = calibrator(trt.IInt8EntropyCalibrator2)
    build(instance, prepare=lambda network, config: network.get_input(0).set_dynamic_range(-1, 1))
    assert [*scales_of(instance.cache)] == ["mean"]


def test_dynamic_ranges_alone_make_an_int8_engine(build, net):
    def ranges(network, config):
        network.get_input(0).dynamic_range = (-3, 3)
        network.get_layer(2).get_output(0).dynamic_range = (0, 2)

    x, numbers = batches(1, 7)[0], describe(net)
    scales = {"x": 3 / 127, "mean": 2 / 127}
    actual = build(prepare=ranges).run(x=x)["y"]
    assert np.mean(np.abs(actual - reference(x, scales, numbers)) < 1e-4) > 0.7


def test_without_the_flag_no_calibrator_is_called(build):
    instance, x = calibrator(trt.IInt8EntropyCalibrator2), batches(1)[0]
    assert (build(instance, flags=()).run(x=x)["y"] == build(flags=()).run(x=x)["y"]).all()
    assert (instance.asked, instance.cache) == ([], None)


def test_a_network_with_codes_of_its_own_is_not_calibrated(build, log):
    def quantise(network, config):
        scale = network.add_constant((), np.float32([0.1])).get_output(0)
        codes = network.add_quantize(network.get_input(0), scale).get_output(0)
        back = network.add_dequantize(codes, scale).get_output(0)
        network.get_layer(0).set_input(0, back)

    instance = calibrator(trt.IInt8EntropyCalibrator2)
    assert build(instance, prepare=quantise) is not None
    assert (instance.asked, "is not used" in log.lines[-1]) == ([], True)


@pytest.mark.parametrize("value", ["calibration profile", "first profile", "none"])
def test_batches_have_the_shapes_of_a_profile(build, value):
    def profile(network, config):
        instance = trt.IOptimizationProfile()
        instance.set_shape("x", (1, 3, 8, 8), SHAPE, (9, 3, 8, 8))
        if value != "none":
            config.add_optimization_profile(instance)
        if value == "calibration profile":
            config.set_calibration_profile(instance)

    instance = calibrator(trt.IInt8MinMaxCalibrator)
    engine = build(instance, shape=(-1, 3, 8, 8), prepare=profile)
    assert engine.run(x=batches(1)[0])["y"].shape == (2, 4)
    assert scales_of(instance.cache)["x"] == pytest.approx(max(np.abs(b).max() for b in batches()) / 127)


def test_a_batch_may_be_an_array_itself(build):
    instance = calibrator(trt.IInt8MinMaxCalibrator, get_batch=lambda self, names: [*filter(
        lambda b: b is not None, [next(self.data, None)])])  # fmt: skip
    assert build(instance) is not None


def test_memory_of_a_calibrator_may_be_used_again(build):
    room = np.empty(SHAPE, np.float32)

    def get_batch(self, names):
        batch = next(self.data, None)
        if batch is None:
            return []
        room[:] = batch
        return [room.ctypes.data]

    built, plain = (calibrator(trt.IInt8EntropyCalibrator2, **m) for m in ({"get_batch": get_batch}, {}))
    build(built), build(plain)
    assert built.cache == plain.cache


def far(self, names):
    return [8]


def raising(self, names):
    raise OSError("no such image")


def third(self, names):
    return Watching.get_batch(self, names) if len(self.asked) < 2 else raising(self, names)


def shrinking(self, names):
    self.asked.append(names)
    return [np.ones((3 - len(self.asked), *SHAPE[1:]), np.float32)]


HOSTILE = {
    "ends early": ({"get_batch": lambda self, names: None}, "AR331", "calibrator.get_batch ("),
    "an address of nothing": ({"get_batch": far}, "AR331", "calibrator.get_batch", "0x8", "x", 1536),
    "no address": ({"get_batch": lambda self, names: [0]}, "AR331", "calibrator.get_batch", "0x0", "x", 1536),
    "gives a tuple of nothing": ({"get_batch": lambda self, names: ()}, "AR331", "calibrator.get_batch ("),
    "gives None for an address": ({"get_batch": lambda self, names: [None]}, "AR703", "x", "NoneType"),
    "gives the other byte order": (
        {"get_batch": lambda self, names: [np.zeros(SHAPE, ">f4")]},
        "AR703",
        "x",
        ">f4",
        "float32",
    ),
    "changes the size": ({"get_batch": shrinking}, "AR331", "calibrator.get_batch", 768, "x", 1536),
    "too many": ({"get_batch": lambda self, names: [64, 64]}, "AR331", "calibrator.get_batch", 2, "x", 1),
    "no list": ({"get_batch": lambda self, names: 64}, "AR331", "calibrator.get_batch", "int"),
    "a name": ({"get_batch": lambda self, names: ["x"]}, "AR703", "x"),
    "a float": ({"get_batch": lambda self, names: [1.5]}, "AR703", "x"),
    "a small array": (
        {"get_batch": lambda self, names: [np.zeros(3, np.float32)]},
        "AR331",
        "calibrator.get_batch",
        12,
        "x",
        1536,
    ),
    "an array of doubles": (
        {"get_batch": lambda self, names: [np.zeros(SHAPE)]},
        "AR703",
        "x",
        "float64",
        "float32",
    ),
    "no number": (
        {"get_batch_size": lambda self: None},
        "AR331",
        "calibrator.get_batch_size",
        None,
        1,
        2**31 - 1,
    ),
    "batches beyond all": (
        {"get_batch_size": lambda self: 1 << 31},
        "AR331",
        "calibrator.get_batch_size",
        1 << 31,
        1,
        2**31 - 1,
    ),
    "batches of none": (
        {"get_batch_size": lambda self: 0},
        "AR331",
        "calibrator.get_batch_size",
        0,
        1,
        2**31 - 1,
    ),
    "no algorithm": (
        {"get_algorithm": lambda self: 2},
        "AR331",
        "calibrator.get_algorithm",
        "int",
        "CalibrationAlgoType",
    ),
    "a cache of text": (
        {"read_calibration_cache": lambda self: "x"},
        "AR331",
        "calibrator.read_calibration_cache",
        "str",
        "bytes",
    ),
    "a share of nothing": ({"get_quantile": lambda self: 0}, "AR331", "calibrator.get_quantile", 0, 0, 1),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_calibrator_is_a_named_error_and_the_next_build_works(build, log, what, capsys):
    more, *values = HOSTILE[what]
    instance = calibrator(trt.IInt8LegacyCalibrator, **more)
    assert build(instance) is None
    assert re.search(diagnostic(*values), log.lines[-1])
    assert (instance.cache, build(calibrator(trt.IInt8LegacyCalibrator)) is None) == (None, False)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"get_batch": raising}, OSError),
        ({"get_batch": third}, OSError),
        ({"get_batch_size": lambda self: 1 / 0}, ZeroDivisionError),
        ({"read_calibration_cache": lambda self: 1 / 0}, ZeroDivisionError),
    ],
)
def test_an_exception_of_a_calibrator_ends_the_build(build, more, error):
    instance = calibrator(trt.IInt8EntropyCalibrator2, **more)
    with pytest.raises(error):
        build(instance)
    assert (instance.cache, build(calibrator(trt.IInt8EntropyCalibrator2)) is None) == (None, False)


@pytest.mark.parametrize("shape", [(2, 3), (-1, 3)])
def test_calibrator_is_called_where_no_layer_multiplies(shape):
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, config = builder.create_network(), builder.create_builder_config()
    network.mark_output(network.add_identity(network.add_input("x", trt.float32, shape)).get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", *[(2, 3)] * 3)
    config.add_optimization_profile(profile)
    config.set_flag(INT8)
    config.int8_calibrator = instance = calibrator(
        trt.IInt8EntropyCalibrator2, [np.zeros((2, 3), np.float32)] * 3
    )
    assert builder.build_serialized_network(network, config) is not None
    assert (instance.asked, instance.cache.splitlines()[0][:4]) == ([["x"]] * 4, b"TRT-")


def test_numbers_that_are_not_finite_name_the_tensor(build, log):
    data = batches()
    data[2][0, 0, 0, 0] = np.nan
    assert build(calibrator(trt.IInt8MinMaxCalibrator, data)) is None
    assert re.search(diagnostic("AR308", "x (", "inf"), log.lines[-1])


METHODS = [
    "get_batch_size",
    "get_batch",
    "get_algorithm",
    "read_calibration_cache",
    "write_calibration_cache",
]


@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c_in_a_calibrator_ends_the_build_and_writes_no_cache(build, method):
    def interrupted(self, *args):
        raise KeyboardInterrupt

    instance = calibrator(trt.IInt8EntropyCalibrator2, **{method: interrupted})
    with pytest.raises(KeyboardInterrupt):
        build(instance)
    assert (instance.cache, build(calibrator(trt.IInt8EntropyCalibrator2)) is None) == (None, False)


def test_a_calibrator_that_cannot_write_loses_no_engine(build, log, capsys):
    instance = calibrator(trt.IInt8EntropyCalibrator2, write_calibration_cache=lambda self, cache: 1 / 0)
    assert build(instance) is not None
    expected = diagnostic("AR331", "calibrator.write_calibration_cache", "ZeroDivisionError")
    assert re.search(expected, log.lines[-1])
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_numbers_of_numpy_are_numbers_of_a_calibrator(build):
    more = {"get_batch_size": lambda self: np.int64(2), "get_quantile": lambda self: np.float32(0.5)}
    assert build(calibrator(trt.IInt8LegacyCalibrator, **more)) is not None


HEAD = b"TRT-8601-EntropyCalibration2\n"
CACHES = {
    b"\xff\xfe\x00": ("UTF-8", "TRT-101600-EntropyCalibration2"),
    b"\n": ("''", "TRT-101600-EntropyCalibration2"),
    b"hello\nx: 3c010a14": ("'hello'", "TRT-101600-EntropyCalibration2"),
    b"TRT-8601-MinMaxCalibration\nx: 3c010a14": ("MinMaxCalibration", "EntropyCalibration2"),
    HEAD + b"x: 3c01": ("'x: 3c01'", 2),
    HEAD + b"x: nothing0": ("'x: nothing0'", 2),
    HEAD + b"x: 3c 01 0a 14": ("'x: 3c 01 0a 14'", 2),
    HEAD + HEAD: ("'TRT-8601-EntropyCalibration2'", 2),
    HEAD + b"x: ff800000": ("'x: ff800000'", 2),
    HEAD + b"3c010a14": ("'3c010a14'", 2),
    HEAD + b"other: 3c010a14\nmore: 3c010a14": ("(test_calibration.py:", 2),
    HEAD: ("(test_calibration.py:", 0),
}


@pytest.mark.parametrize("cache", CACHES, ids=range(len(CACHES)))
def test_a_cache_that_does_not_fit_is_rejected_and_stays(build, log, cache):
    instance = calibrator(trt.IInt8EntropyCalibrator2, cache=cache)
    assert build(instance) is None
    assert re.search(diagnostic("AR332", "calibration cache", *CACHES[cache]), log.lines[-1])
    assert (instance.cache, instance.asked) == (cache, [])


def test_a_cache_of_a_gigabyte_is_rejected_before_it_is_read(build, log):
    cache = memoryview(mmap.mmap(-1, 1 << 30, prot=mmap.PROT_READ))  # untouched pages use no memory
    assert build(calibrator(trt.IInt8EntropyCalibrator2, cache=cache)) is None
    assert re.search(diagnostic("AR332", "calibration cache", 1 << 30, 64 << 20), log.lines[-1])


def test_a_cache_of_another_version_with_more_tensors_is_taken(build):
    cache = (
        b"\xef\xbb\xbf"
        + HEAD.replace(b"\n", b"\r\n")
        + b"x: 3c010a14\r\nmore: 3c010a14\r\nmean: 00000000\r\n"
    )
    assert build(calibrator(trt.IInt8EntropyCalibrator2, cache=cache)) is not None


def test_names_of_tensors_may_hold_ends_of_lines_of_other_writings(build):
    def name(network, config):
        network.get_layer(2).get_output(0).name = "me\u2028an: \x85"

    built, again = (calibrator(trt.IInt8EntropyCalibrator2) for _ in "ab")
    assert build(built, prepare=name) is not None
    again.cache = built.cache
    assert (build(again, prepare=name) is None, again.asked) == (False, [])
    assert built.cache.decode().split("\n")[2].startswith("me\u2028an: \x85: ")


def test_tensors_of_nothing_but_zeros_have_a_range_too(build):
    instance = calibrator(trt.IInt8EntropyCalibrator2, [np.zeros(SHAPE, np.float32)])
    assert build(instance).run(x=np.zeros(SHAPE, np.float32))["y"].shape == (2, 4)
    assert scales_of(instance.cache)["x"] == pytest.approx(1 / 127)


def test_the_setting_takes_calibrators_only(build, log):
    config = trt.Builder(log).create_builder_config()
    with pytest.raises(TypeError, match="int8_calibrator"):
        config.int8_calibrator = object()
    assert config.int8_calibrator is None
    config.int8_calibrator = instance = calibrator(trt.IInt8MinMaxCalibrator)
    assert config.int8_calibrator is instance


@pytest.mark.parametrize("base", [k for k, _ in KINDS])
def test_a_calibrator_must_call_its_base(base):
    forgetful = type("Forgetful", (base,), {"__init__": lambda self: None})
    with pytest.raises(TypeError, match=f"{base.__name__}.__init__"):
        forgetful()


RIGHT = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)


def kept_rows(network):
    """The rows of x whose sum is above 0, times RIGHT."""
    x = network.add_input("x", trt.float32, (8, 4))
    sums = network.add_reduce(x, trt.ReduceOperation.SUM, 2, False).get_output(0)
    zero = network.add_constant((1,), np.zeros(1, np.float32)).get_output(0)
    above = network.add_elementwise(sums, zero, trt.ElementWiseOperation.GREATER).get_output(0)
    rows = network.add_shuffle(network.add_non_zero(above).get_output(0))
    rows.reshape_dims = (-1,)
    kept = network.add_gather(x, rows.get_output(0), 0).get_output(0)
    right = network.add_constant((4, 3), RIGHT).get_output(0)
    network.mark_output(network.add_matrix_multiply(kept, NONE, right, NONE).get_output(0))


@pytest.mark.parametrize("kind", [k for k, _ in KINDS])
def test_tensors_whose_sizes_data_decide_are_calibrated(log, kind):
    builder, rng = trt.Builder(log), np.random.default_rng(3)
    network, config = builder.create_network(), builder.create_builder_config()
    kept_rows(network)
    config.set_flag(INT8)
    none = np.full((8, 4), -1, np.float32)  # none of its rows is kept
    data = [rng.standard_normal((8, 4)).astype(np.float32) for _ in range(4)]
    config.int8_calibrator = calibrator(kind, [*data, none], get_batch_size=lambda self: 8)
    engine = builder.build_engine_with_config(network, config)
    (got,) = engine.run(x=data[0]).values()
    np.testing.assert_allclose(got, data[0][data[0].sum(1) > 0] @ RIGHT, atol=0.1)
