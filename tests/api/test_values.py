"""Dims, permutations, weights, host memory: the value types of the interface."""

import gc
import importlib
import io
import weakref

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic


def test_dims_act_like_tuples():
    shape = trt.Dims((1, 3, -1))
    assert shape == [1, 3, -1]
    assert tuple(shape) == (1, 3, -1)
    assert (shape[0], shape[-1], shape[1:], repr(shape)) == (1, -1, (3, -1), "(1, 3, -1)")


def test_dims_join_as_tuples_do():
    shape, more, listed = trt.Dims((1, 3)), (5,), [5]
    joined = (shape + more, more + shape, shape + shape, sum([shape], ()))
    assert joined == ((1, 3, 5), (5, 1, 3), (1, 3, 1, 3), (1, 3))
    assert {type(x) for x in joined} == {tuple}
    with pytest.raises(TypeError):
        shape + listed


def test_dims_elements_can_be_assigned():
    shape = trt.Dims4(1, 2, 3, 4)
    shape[0] = 7
    shape[2:] = (8, 9)
    assert shape == (7, 2, 8, 9)


def test_named_dims_have_their_length():
    size = trt.DimsHW((4, 5))
    size.h = 6
    assert (size.h, size.w, trt.Dims2(1, 2)[1], len(trt.Dims3())) == (6, 5, 2, 3)
    with pytest.raises(ValueError, match=diagnostic("AR108", "Dims3", 2, 3)):
        trt.Dims3((1, 2))


@pytest.mark.parametrize(("value", "error"), [((1,) * 9, ValueError), ((1.5,), TypeError), ("12", TypeError)])
def test_dims_reject_invalid_shapes(value, error):
    with pytest.raises(error):
        trt.Dims(value)


def test_unknown_dims_have_rank_minus_1_and_no_length():
    unknown = trt.Dims()
    unknown._known = False
    assert unknown.rank == -1
    assert unknown != ()
    with pytest.raises(ValueError, match="should return >= 0"):
        len(unknown)


def test_permutation_is_an_array_of_eight():
    order = trt.Permutation([1, 0])
    assert (len(order), list(order), order.axes) == (8, [1, 0, 2, 3, 4, 5, 6, 7], (1, 0))
    order[2] = 2
    assert order.axes == (1, 0, 2)
    with pytest.raises(ValueError, match=diagnostic("AR301", "Permutation", 9, 8)):
        trt.Permutation(range(9))


def test_weights_of_an_array_are_zero_copy():
    array = np.zeros((2, 2), np.float32)
    weights = trt.Weights(array)
    array[1, 1] = 5
    assert weights.numpy()[3] == 5
    assert (weights.dtype, weights.size, len(weights), weights.nbytes) == (trt.float32, 4, 4, 16)


def test_weights_of_an_address_read_the_memory():
    array = np.arange(4, dtype=np.int32)
    weights = trt.Weights(trt.int32, array.ctypes.data, 4)
    array[0] = 9
    assert weights.numpy().tolist() == [9, 1, 2, 3]


def test_weights_without_a_numpy_type_give_themselves():
    array = np.array([1.5, -2], ml_dtypes.bfloat16)
    weights = trt.Weights(type=trt.bfloat16, ptr=array.ctypes.data, count=2)
    assert weights.numpy() is weights
    assert weights.elements().tolist() == [1.5, -2]


def test_packed_weights_take_half_a_byte_an_element():
    packed = np.array([0xF1, 0x07], np.uint8)
    weights = trt.Weights(trt.int4, packed.ctypes.data, 3)
    assert (weights.nbytes, weights.elements().tolist()) == (2, [1, -1, 7])


def test_empty_weights_have_a_type_only():
    assert (trt.Weights().size, trt.Weights(trt.float16).dtype, trt.Weights().numpy().shape) == (
        0,
        trt.float16,
        (0,),
    )


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4), np.float32)[:, ::2], np.zeros(2, complex), np.zeros(2, ">f4")]
)
def test_weights_reject_strided_and_foreign_arrays(array):
    with pytest.raises(ValueError, match=r"AR30[47]"):
        trt.Weights(array)


HIDDEN = np.ma.array(np.float32([1, 2]), mask=[False, True])


@pytest.mark.parametrize("array", [np.ones((2, 2), np.float32).view(np.matrix), HIDDEN, [1.0, 2.0]])
def test_weights_reject_matrices_masked_arrays_and_lists(array):
    with pytest.raises((ValueError, TypeError), match="AR311"):
        trt.Weights(a=array)


def test_weights_of_a_mapped_file_are_an_array_in_its_memory(tmp_path):
    np.save(tmp_path / "w.npy", np.float32([1, 2]))
    array = np.load(tmp_path / "w.npy", mmap_mode="r+")
    weights = trt.Weights(array)
    array[0] = 7
    assert (type(weights.numpy()), weights.address) == (np.ndarray, array.ctypes.data)
    assert weights.numpy().tolist() == [7, 2]


def test_weights_reject_a_null_address():
    with pytest.raises(ValueError, match="AR307"):
        trt.Weights(trt.float32, 0, 4)


def test_host_memory_is_a_buffer():
    memory, file = trt.IHostMemory(b"plan"), io.BytesIO()
    file.write(memory)
    copies = (bytes(memory), bytes(bytearray(memory)), bytes(memoryview(memory)), file.getvalue())
    assert copies == (b"plan",) * 4
    assert (np.frombuffer(memory, np.uint8).sum(), memory.nbytes, memoryview(memory).ndim) == (427, 4, 1)


def test_host_memory_has_truth_and_identity_and_a_length():
    memory = trt.IHostMemory(b"")
    assert memory
    assert memory != trt.IHostMemory(b"")
    assert memory != b""
    assert (len(memory), len(trt.IHostMemory(b"plan"))) == (0, 4)


def test_host_memory_has_no_order():
    memory = trt.IHostMemory(b"plan")
    with pytest.raises(TypeError, match="not supported"):
        assert memory < b"zzzz"
    assert (memory == memory, memory == b"plan") == (True, False)


def test_host_memory_is_read_like_any_bytes(tmp_path):
    memory = trt.IHostMemory(b"plan")
    (tmp_path / "net.plan").write_bytes(memory)
    assert np.frombuffer(memory, np.uint8).tolist() == list(memory) == [112, 108, 97, 110]
    assert (memory[0], bytes(memory[1:]), b"la" in memory) == (112, b"lan", True)
    assert (tmp_path / "net.plan").read_bytes() == b"plan"


def test_module_functions():
    assert (trt.volume((2, 3)), trt.nptype(trt.bool), trt.init_libnvinfer_plugins(None, "")) == (
        6,
        np.bool_,
        True,
    )
    with pytest.raises(TypeError, match="Could not resolve"):
        trt.nptype(trt.bfloat16)


def test_the_plugin_registry_is_empty():
    registry = trt.get_plugin_registry()
    assert registry is trt.get_builder_plugin_registry(trt.EngineCapability.STANDARD)
    assert (registry.all_creators, registry.get_creator("x", "1")) == ([], None)


def test_versions_are_numeric_and_dotted():
    assert [int(x) for x in trt.__version__.split(".")][:2] == [10, 16]
    assert trt.__anyrt_version__ == "0.1.0"
    assert trt.errors.ShapeError.__mro__[1] is trt.errors.AnyrtError


def test_weights_of_memory_that_is_gone_are_rejected():
    weights = trt.Weights(trt.float32, 1 << 40, 4)
    with pytest.raises(ValueError, match="AR307"):
        weights.numpy()


@pytest.mark.parametrize("length", [2, 3, 4])
def test_dims_of_a_fixed_length_take_sizes_or_a_sequence(length):
    kind, sizes = getattr(trt, f"Dims{length}"), tuple(range(5, 5 + length))
    for built in (kind(*sizes), kind(sizes), kind(list(sizes)), kind(trt.Dims(sizes)), kind(np.array(sizes))):
        assert (built, len(built), isinstance(built, trt.Dims)) == (sizes, length, True)
    assert kind() == (0,) * length
    with pytest.raises(ValueError, match=diagnostic("AR108", kind.__name__, length + 1, length)):
        kind((1,) * (length + 1))


def test_height_and_width_are_the_two_sizes():
    size = trt.DimsHW(h=3, w=4)
    size.w += 1
    size[0] = 7
    assert (size, size.h, size.w, isinstance(size, trt.Dims2)) == ((7, 5), 7, 5, True)


def test_dims_have_at_most_eight_sizes_and_check_what_is_assigned():
    assert (trt.Dims.MAX_DIMS, len(trt.Dims((1,) * 8))) == (8, 8)
    shape = trt.Dims((1, 2, 3))
    for bad, error in (((slice(0, 2), (1,)), ValueError), ((0, 1.5), TypeError), ((5, 1), IndexError)):
        with pytest.raises(error):
            shape[bad[0]] = bad[1]
    with pytest.raises(IndexError):
        shape[3]
    assert (str(shape), shape == trt.Dims([1, 2, 3]), shape != (1, 2), shape == "123") == (
        *("(1, 2, 3)", True, True),
        False,
    )


def test_permutations_show_and_check_all_eight():
    order = trt.Permutation()
    order[0], order[1] = 1, 0
    assert (str(order), order[7]) == ("(1, 0, 2, 3, 4, 5, 6, 7)", 7)
    with pytest.raises(IndexError):
        order[8]
    with pytest.raises(TypeError, match="AR311"):
        order[0] = "1"


def test_arrays_are_weights_by_position_or_as_a_and_are_kept_alive():
    array = np.float16([1, 2, 3])
    alive = weakref.ref(array)
    weights = [trt.Weights(array), trt.Weights(a=array)]
    del array
    gc.collect()
    assert [(w.dtype, w.size, w.nbytes, w.numpy() is alive()) for w in weights] == [
        (trt.float16, 3, 6, True)
    ] * 2
    assert [w.numpy().tolist() for w in weights] == [[1, 2, 3]] * 2


@pytest.mark.parametrize("args", [("float",), (trt.float32, 64), (trt.float32, "64", 1), (None, 64, 1)])
def test_weights_reject_other_arguments(args):
    with pytest.raises(TypeError, match="AR311"):
        trt.Weights(*args)


def test_numpy_types_of_all_element_types():
    known = {
        trt.float32: np.float32, trt.float16: np.float16, trt.int8: np.int8, trt.int32: np.int32,
        trt.int64: np.int64, trt.bool: np.bool_, trt.uint8: np.uint8,
    }  # fmt: skip
    assert {t: trt.nptype(t) for t in known} == known
    for t in {t for t in trt.DataType if not t.is_extension} - set(known):
        with pytest.raises(TypeError, match=str(t)):
            trt.nptype(t)
    own = {t: np.dtype(trt.nptype(t)).name for t in trt.DataType if t.is_extension}
    assert own == {
        trt.float64: "float64", trt.int16: "int16", trt.uint16: "uint16", trt.uint32: "uint32",
        trt.uint64: "uint64", trt.uint4: "uint4", trt.int2: "int2", trt.uint2: "uint2",
        trt.fp8e5m2: "float8_e5m2", trt.fp8e4m3fnuz: "float8_e4m3fnuz", trt.fp8e5m2fnuz: "float8_e5m2fnuz",
    }  # fmt: skip


@pytest.mark.parametrize(("sizes", "want"), [((), 1), ([2, 3], 6), (trt.Dims((4, 0)), 0), ((-1, 3), -3)])
def test_volume_is_the_product(sizes, want):
    assert trt.volume(sizes) == want


def test_registries_find_nothing_and_keep_their_settings():
    registry = trt.get_plugin_registry()
    result = (registry.all_creators_recursive, registry.plugin_creator_list)
    assert (result, registry.get_plugin_creator("x", "1", "")) == (([], []), None)
    assert isinstance(registry, trt.IPluginRegistry)
    with pytest.raises(TypeError, match="AR311"):
        trt.get_builder_plugin_registry(0)
    with pytest.raises(TypeError, match="AR311"):
        trt.init_libnvinfer_plugins(None, None)


def test_every_name_of_the_module_can_be_had():
    names = dir(trt)
    assert [n for n in names if getattr(trt, n, None) is None] == []
    assert {"Builder", "IScaleLayer", "ScaleMode", "float32", "nptype", "errors", "strict"} <= set(names)
    assert set(trt.__all__) == {n for n in names if not n.startswith("_")}


def test_tensorrt_in_the_module_is_the_module():
    inner = importlib.import_module("anyrt.tensorrt")
    assert trt.tensorrt is inner is trt
    assert trt.tensorrt.ILogger.Severity is trt.ILogger.Severity
