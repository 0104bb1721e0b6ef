"""Formats of inputs and outputs: their memory layouts, and their descriptions by engines."""

import json
import re

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.dtype import numpy_dtype
from tests.messages import diagnostic

F32, F16, BF16, I8, U8, I64 = trt.float32, trt.float16, trt.bfloat16, trt.int8, trt.uint8, trt.int64
FP8 = trt.fp8
IMAGE, VOLUME = (2, 11, 3, 5), (2, 11, 2, 3, 4)  # 11 channels fill no vector

# Shape of the array that views the memory, and the index in it of the element at (n, c, h, w), or (n, c, d,
# h, w).
PLACES = {
    "LINEAR": (IMAGE, (2, 11, 3, 5), lambda n, c, h, w: (n, c, h, w)),
    "CHW2": (IMAGE, (2, 6, 3, 5, 2), lambda n, c, h, w: (n, c // 2, h, w, c % 2)),
    "CHW4": (IMAGE, (2, 3, 3, 5, 4), lambda n, c, h, w: (n, c // 4, h, w, c % 4)),
    "CHW16": (IMAGE, (2, 1, 3, 5, 16), lambda n, c, h, w: (n, c // 16, h, w, c % 16)),
    "CHW32": (IMAGE, (2, 1, 3, 5, 32), lambda n, c, h, w: (n, c // 32, h, w, c % 32)),
    "HWC": (IMAGE, (2, 3, 5, 11), lambda n, c, h, w: (n, h, w, c)),
    "HWC8": (IMAGE, (2, 3, 5, 16), lambda n, c, h, w: (n, h, w, c)),
    "HWC16": (IMAGE, (2, 3, 5, 16), lambda n, c, h, w: (n, h, w, c)),
    "DHWC": (VOLUME, (2, 2, 3, 4, 11), lambda n, c, d, h, w: (n, d, h, w, c)),
    "DHWC8": (VOLUME, (2, 2, 3, 4, 16), lambda n, c, d, h, w: (n, d, h, w, c)),
    "CDHW32": (VOLUME, (2, 1, 2, 3, 4, 32), lambda n, c, d, h, w: (n, c // 32, d, h, w, c % 32)),
}
TYPES = {
    "LINEAR": (F32,),
    "CHW2": (F16, BF16),
    "CHW4": (F16, I8),
    "CHW16": (F16,),
    "CHW32": (F32, F16, I8),
    "HWC": (F32, F16, BF16, I64),
    "HWC8": (F16, BF16),
    "HWC16": (F16, I8),
    "DHWC": (F32,),
    "DHWC8": (F16, BF16),
    "CDHW32": (F16, I8),
}
CASES = [(name, dtype) for name, types in TYPES.items() for dtype in types]


def laid_out(x, sizes, place, rest=0):
    """The array that views the memory, with `rest` in all places without an element."""
    memory = np.full(sizes, rest, x.dtype)
    for index in np.ndindex(*x.shape):
        memory[place(*index)] = x[index]
    return memory


def bit(name):
    return 1 << int(trt.TensorFormat.__members__[name])


@pytest.fixture
def engine_of(log):
    """An engine of y = x in these formats; dynamic dimensions are 0 to `most`."""

    def build(source, result, dtype, shape, most=None):
        builder = trt.Builder(log)
        net, config = builder.create_network(), builder.create_builder_config()
        x = net.add_input("x", dtype, shape)
        y = net.add_elementwise(x, x, trt.ElementWiseOperation.MAX).get_output(0)
        x.allowed_formats, y.name, y.allowed_formats = bit(source), "y", bit(result)
        net.mark_output(y)
        if most is not None:
            profile = builder.create_optimization_profile()
            least = tuple(0 if n < 0 else n for n in shape)
            profile.set_shape("x", least, most, most)
            config.add_optimization_profile(profile)
        return builder.build_engine_with_config(net, config)

    return build


def run(engine, memory, shape, room):
    """The memory after an inference, which held ones before."""
    context = engine.create_execution_context()
    result = np.ones(room, memory.dtype)
    assert context.set_input_shape("x", shape)
    assert context.set_tensor_address("x", memory.ctypes.data)
    assert context.set_tensor_address("y", result.ctypes.data)
    assert context.execute_async_v3(0)
    return result


def numbers(shape, dtype):
    return np.arange(-50, np.prod(shape) - 50).reshape(shape).astype(np.int8).astype(numpy_dtype(dtype))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda x: getattr(x, "name", x))
def test_inputs_and_outputs_lie_as_their_format_says(engine_of, name, dtype):
    shape, sizes, place = PLACES[name]
    x = numbers(shape, dtype)
    # Padding between the elements of an input is ignored; in an output it is zero.
    values, expected = laid_out(x, sizes, place, rest=77), laid_out(x, sizes, place)
    into, out = engine_of(name, "LINEAR", dtype, shape), engine_of("LINEAR", name, dtype, shape)
    np.testing.assert_array_equal(run(into, values, shape, shape), x)
    np.testing.assert_array_equal(run(out, x, shape, sizes), expected)


@pytest.mark.parametrize("name", PLACES)
def test_formats_are_right_for_open_sizes(engine_of, name):
    shape, sizes, place = PLACES[name]
    engine = engine_of(name, name, TYPES[name][0], (-1,) * len(shape), tuple(n + 30 for n in shape))
    x = numbers(shape, TYPES[name][0])
    values = laid_out(x, sizes, place, rest=77)
    np.testing.assert_array_equal(run(engine, values, shape, sizes), laid_out(x, sizes, place))
    np.testing.assert_array_equal(engine.run(x=x[:, :3])["y"], x[:, :3])


def test_rows_for_a_dla_fill_lines_of_64_bytes(engine_of):
    x = numbers((2, 3, 2, 5), F16)
    expected = np.pad(x, [(0, 0), (0, 0), (0, 0), (0, 27)])  # 32 elements of 2 bytes
    out = run(engine_of("LINEAR", "DLA_LINEAR", F16, x.shape), x, x.shape, expected.shape)
    np.testing.assert_array_equal(out, expected)
    out = run(engine_of("DLA_LINEAR", "LINEAR", F16, x.shape), expected, x.shape, x.shape)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(("channels", "lanes", "width"), [(1, 1, 64), (3, 4, 16), (4, 4, 16)])
def test_images_for_a_dla_have_one_or_four_elements_a_pixel(engine_of, channels, lanes, width):
    x = numbers((2, channels, 2, 5), I8)
    expected = np.zeros((2, 2, width, lanes), np.int8)
    expected[:, :, :5, :channels] = x.transpose(0, 2, 3, 1)
    engine = engine_of("DLA_HWC4", "DLA_HWC4", I8, (-1, channels, -1, -1), (4, channels, 9, 9))
    np.testing.assert_array_equal(run(engine, expected, x.shape, expected.shape), expected)


def test_nan_between_elements_does_not_affect_results(engine_of):
    shape, sizes, place = PLACES["HWC8"]
    values = laid_out(numbers(shape, F16), sizes, place, rest=np.nan)
    expected = laid_out(numbers(shape, F16), *PLACES["CHW16"][1:])
    engine = engine_of("HWC8", "CHW16", F16, shape)
    np.testing.assert_array_equal(run(engine, values, shape, expected.shape), expected)


@pytest.mark.parametrize("shape", [(0, 3, 2, 2), (1, 0, 2, 2), (1, 3, 0, 2)])
def test_empty_tensors_have_formats(engine_of, shape):
    engine = engine_of("CHW4", "HWC8", F16, (-1, -1, -1, -1), (2, 9, 4, 4))
    assert engine.run(x=np.ones(shape, np.float16))["y"].shape == shape
    context = engine.create_execution_context()
    context.set_input_shape("x", shape)
    assert (context.get_max_output_size("y"), context.get_tensor_shape("y")) == (0, shape)


def test_types_that_layers_only_cast_have_formats(net):
    u, f = net.add_input("u", U8, (1, 3, 2, 2)), net.add_input("f", FP8, (1, 3, 2, 2))
    cast = net.add_cast(u, F32).get_output(0)
    scale = net.add_constant((), np.float32([2])).get_output(0)
    real = net.add_dequantize(f, scale, F32).get_output(0)
    u.allowed_formats, f.allowed_formats = bit("HWC"), bit("HWC16")
    for tensor, name in ((cast, "c"), (real, "r")):
        tensor.name = name
        net.mark_output(tensor)
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    pixels, halves = np.arange(12).reshape(1, 3, 2, 2), numbers((1, 3, 2, 2), FP8)
    out = engine.run(u=pixels.astype(np.uint8), f=halves)
    np.testing.assert_array_equal(out["c"], pixels)
    np.testing.assert_array_equal(out["r"], 2 * halves.astype(np.float32))


SAID = {
    "LINEAR": (-1, -1, -1, (165, 15, 5, 1), "Row major linear FP32 format (kLINEAR)"),
    "CHW2": (1, 2, 2, (90, 15, 5, 1), "Two wide channel vectorized row major FP16 format (kCHW2)"),
    "CHW32": (1, 32, 4, (15, 15, 5, 1), "Thirty-two wide channel vectorized row major FP32 format (kCHW32)"),
    "HWC": (-1, -1, -1, (165, 1, 55, 11), "Channel major FP32 format (kHWC)"),
    "HWC8": (1, 8, 2, (30, 1, 10, 2), "Channel major FP16 format where channel % 8 == 0 (kHWC8)"),
    "DLA_LINEAR": (-1, -1, -1, (1056, 96, 32, 1), "DLA planar FP16 format (kDLA_LINEAR)"),
}


@pytest.mark.parametrize("name", SAID)
def test_engines_say_how_vectors_lie(engine_of, name):
    engine = engine_of(name, name, TYPES.get(name, (F16,))[0], (-1, *IMAGE[1:]), (4, *IMAGE[1:]))
    context = engine.create_execution_context()
    context.set_input_shape("x", IMAGE)
    queries = ("vectorized_dim", "components_per_element", "bytes_per_component")
    for tensor in ("x", "y"):
        said = [getattr(engine, f"get_tensor_{q}")(tensor) for q in queries]
        assert engine.get_tensor_format(tensor, 0) is trt.TensorFormat.__members__[name]
        said += [context.get_tensor_strides(tensor), engine.get_tensor_format_desc(tensor)]
        assert tuple(said) == SAID[name]
    assert engine.get_tensor_shape("x") == (-1, *IMAGE[1:])


def test_sizes_of_memory_are_those_of_whole_vectors(engine_of):
    context = engine_of("LINEAR", "CHW4", I8, (-1, 6, 3, 5), (4, 6, 3, 5)).create_execution_context()
    assert context.get_max_output_size("y") == 4 * 2 * 3 * 5 * 4
    assert context.get_tensor_strides("y") == (30, 15, 5, 1)
    context.set_input_shape("x", (3, 6, 3, 5))
    assert context.get_max_output_size("y") == 3 * 2 * 3 * 5 * 4


def test_output_allocators_get_sizes_of_whole_vectors(engine_of):
    class Giver(trt.IOutputAllocator):
        def reallocate_output(self, name, memory, size, alignment):
            asked.append(size)
            return held.ctypes.data

        def notify_shape(self, name, shape):
            asked.append(shape)

    asked, held = [], np.ones((1, 1, 2, 2, 4), np.int8)
    context = engine_of("LINEAR", "CHW4", I8, (1, 3, 2, 2)).create_execution_context()
    x, giver = numbers((1, 3, 2, 2), I8), Giver()
    context.set_tensor_address("x", x.ctypes.data)
    context.set_output_allocator("y", giver)
    assert context.execute_async_v3(0)
    assert asked == [16, (1, 3, 2, 2)]
    assert (held[0, 0, ..., :3] == x[0].transpose(1, 2, 0)).all()
    assert not held[..., 3].any()


def test_an_array_without_room_for_whole_vectors_is_rejected(engine_of, log):
    context = engine_of("LINEAR", "CHW4", I8, (1, 3, 2, 2)).create_execution_context()
    x, y = numbers((1, 3, 2, 2), I8), np.empty((1, 3, 2, 2), np.int8)
    context.set_tensor_address("x", x)
    context.set_tensor_address("y", y)
    assert context.execute_async_v3(0) is False
    assert re.search(diagnostic("AR704", "y", 12, (1, 3, 2, 2), 16, 16, "CHW4"), log.lines[-1])


MISTAKES = {
    "a type that the format does not hold": ("CHW4", F32, IMAGE, ("float16", "int8")),
    "too few dimensions": ("HWC8", F16, (3, 5), (3,)),
    "too few dimensions for a volume": ("DHWC", F32, (3, 5, 6), (4,)),
    "channels that no image has": ("DLA_HWC4", I8, (1, 5, 2, 2), (1, 3, 4)),
    "open channels of an image": ("DLA_HWC4", I8, (1, -1, 2, 2), (1, 3, 4)),
}


@pytest.mark.parametrize(("name", "dtype", "shape", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_formats_that_do_not_fit_fail_the_build(engine_of, log, name, dtype, shape, expected):
    most = tuple(3 if n < 0 else n for n in shape) if -1 in shape else None
    assert engine_of(name, "LINEAR", dtype, shape, most) is None
    values = ("x", name, len(shape), f"{name}:", *expected)
    assert re.search(diagnostic("AR415", *values), log.lines[-1])


def test_of_several_formats_one_that_fits_is_taken(net, log):
    x = net.add_input("x", I8, (1, 3, 2, 2))
    y = net.add_cast(x, F32).get_output(0)
    x.allowed_formats = bit("HWC8") | bit("CHW32") | bit("HWC16")
    y.name, y.allowed_formats = "y", bit("LINEAR") | bit("HWC")
    net.mark_output(y)
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    assert [engine.get_tensor_format(n) for n in "xy"] == [trt.TensorFormat.CHW32, trt.TensorFormat.LINEAR]


def test_tensors_that_others_look_at_are_linear(net, log, golden_text):
    x = net.add_input("x", F32, (1, 3, 2, 2))
    y = net.add_identity(x).get_output(0)
    x.allowed_formats, y.name = bit("HWC"), "y"
    net.mark_output(y)
    net.mark_debug(x)
    config = net.builder.create_builder_config()
    assert net.builder.build_serialized_network(net, config) is None
    golden_text(log.lines[-1])
    net.unmark_debug(x)
    assert net.builder.build_serialized_network(net, config) is not None


def test_layers_between_formats_are_one_kernel(net):
    x = net.add_input("x", F16, (2, 3, 30, 30))
    y = net.add_activation(x, trt.ActivationType.TANH).get_output(0)
    z = net.add_elementwise(y, x, trt.ElementWiseOperation.SUM).get_output(0)
    x.allowed_formats, z.name, z.allowed_formats = bit("HWC8"), "z", bit("CHW2")
    net.mark_output(z)
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    assert engine.num_layers == 1


def test_contexts_and_plans_keep_formats(engine_of, log):
    plan = engine_of("CHW32", "HWC8", F16, IMAGE).serialize()
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert [engine.get_tensor_format(n).name for n in "xy"] == ["CHW32", "HWC8"]
    assert repr(engine).endswith("'x' float16 (2, 11, 3, 5) CHW32 -> 'y' float16 (2, 11, 3, 5) HWC8>")


def test_inspectors_report_formats(net):
    x = net.add_input("x", F16, (1, 3, 2, 2))
    y = net.add_unary(x, trt.UnaryOperation.ABS).get_output(0)
    x.allowed_formats, y.name, y.allowed_formats = bit("CHW2"), "y", bit("HWC8")
    net.mark_output(y)
    config = net.builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    inspector = net.builder.build_engine_with_config(net, config).create_engine_inspector()
    kernel = json.loads(inspector.get_layer_information(0, trt.LayerInformationFormat.JSON))
    assert [(t["Dimensions"], t["Format/Datatype"]) for t in kernel["Inputs"] + kernel["Outputs"]] == [
        ([1, 3, 2, 2], "Two wide channel vectorized row major FP16 format"),
        ([1, 3, 2, 2], "Channel major FP16 format where channel % 8 == 0"),
    ]
