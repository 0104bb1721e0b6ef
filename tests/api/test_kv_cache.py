"""Caches of keys and values, which are updated in place."""

import re

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import GraphError, ShapeError
from tests.messages import diagnostic

F, LINEAR = trt.float32, trt.KVCacheMode.LINEAR


def updating(net, *, mark=True):
    """A network whose input `cache` of 6 positions is updated with `new` from the positions `at` on."""
    cache, new = net.add_input("cache", F, (2, 1, 6, 2)), net.add_input("new", F, (2, 1, 2, 2))
    layer = net.add_kv_cache_update(cache, new, net.add_input("at", trt.int32, (2,)), LINEAR)
    layer.get_output(0).name = "updated"
    if mark:
        net.mark_output(layer.get_output(0))
    return cache, layer


def built(net):
    return net.builder.build_engine_with_config(net, net.builder.create_builder_config())


@pytest.fixture
def bound(net):
    """A context, and the arrays that are bound to it."""
    updating(net)
    context = built(net).create_execution_context()
    arrays = {
        "cache": np.zeros((2, 1, 6, 2), np.float32),
        "new": np.arange(1, 9, dtype=np.float32).reshape(2, 1, 2, 2),
        "at": np.int32([0, 3]),
    }
    for name, array in arrays.items():
        context.set_tensor_address(name, array)
    return context, arrays


def test_a_cache_is_written_where_it_lies(bound):
    context, arrays = bound
    context.set_tensor_address("updated", arrays["cache"])
    assert context.execute_async_v3(0)
    assert arrays["cache"][0, 0].tolist() == [[1, 2], [3, 4], [0, 0], [0, 0], [0, 0], [0, 0]]
    arrays["at"][:] = 2, 4
    assert context.execute_async_v3(0)
    assert arrays["cache"][0, 0].tolist() == [[1, 2], [3, 4], [1, 2], [3, 4], [0, 0], [0, 0]]
    assert arrays["cache"][1, 0].tolist() == [[0, 0], [0, 0], [0, 0], [5, 6], [5, 6], [7, 8]]


@pytest.mark.parametrize("wrong", [5, -1, 2**31 - 1, -(2**31)])
def test_tokens_outside_the_cache_are_rejected_before_any_is_written(bound, log, wrong):
    context, arrays = bound
    context.set_tensor_address("updated", arrays["cache"])
    arrays["at"][1] = wrong
    assert not context.execute_async_v3(0)
    assert arrays["cache"].sum() == 0
    place = "(Unnamed Layer* 0) [KVCacheUpdate] (test_kv_cache.py:"
    assert re.search(diagnostic("AR131", place, 2, wrong, 0, 5, 6), log.lines[0])
    arrays["at"][1] = 4
    assert context.execute_async_v3(0)
    assert arrays["cache"].sum() == arrays["new"].sum()


def test_no_cache_is_written_where_one_is_rejected(net, log):
    arrays = {}
    for name in "kv":
        cache, new = net.add_input(name, F, (1, 1, 6, 1)), net.add_input(f"{name}_new", F, (1, 1, 2, 1))
        layer = net.add_kv_cache_update(cache, new, net.add_input(f"{name}_at", trt.int32, (1,)), LINEAR)
        layer.name, layer.get_output(0).name = f"into {name}", f"{name}_out"
        net.mark_output(layer.get_output(0))
        arrays[name] = arrays[f"{name}_out"] = np.zeros((1, 1, 6, 1), np.float32)
        arrays |= {f"{name}_new": np.ones((1, 1, 2, 1), np.float32), f"{name}_at": np.int32([2])}
    context = built(net).create_execution_context()
    for name, array in arrays.items():
        context.set_tensor_address(name, array)
    arrays["v_at"][0] = 5
    assert not context.execute_async_v3(0)
    assert (arrays["k"].sum(), arrays["v"].sum()) == (0, 0)
    assert "[AR131] into v (test_kv_cache.py:" in log.lines[0]


def test_a_profiled_run_is_rejected_as_well(bound, log):
    context, arrays = bound
    context.set_tensor_address("updated", arrays["cache"])
    context.profiler = trt.Profiler()
    arrays["at"][0] = 5
    assert not context.execute_async_v3(0)
    assert "[AR131]" in log.lines[0]


@pytest.mark.parametrize("dtype", [trt.float16, trt.bfloat16])
def test_half_types_are_written_bit_for_bit(net, dtype):
    cache, new = net.add_input("cache", dtype, (1, 2, 5, 3)), net.add_input("new", dtype, (1, 2, 1, 3))
    layer = net.add_kv_cache_update(cache, new, net.add_input("at", trt.int32, (1,)), LINEAR)
    layer.get_output(0).name = "updated"
    net.mark_output(layer.get_output(0))
    bits = np.random.default_rng(0).integers(0, 1 << 16, (1, 2, 5, 3)).astype(np.uint16)  # also for NaN
    fresh = np.uint16([[[[1, 2, 3]], [[0xFFFF, 5, 6]]]])
    expected = bits.copy()
    expected[:, :, 3:4] = fresh
    context = built(net).create_execution_context()
    arrays = {"cache": bits, "new": fresh, "at": np.int32([3]), "updated": bits}
    for name, array in arrays.items():
        context.set_tensor_address(name, array.ctypes.data)
    assert context.execute_async_v3(0)
    assert (bits == expected).all()


def test_an_update_that_is_not_bound_to_its_cache_is_rejected(bound, log):
    context, arrays = bound
    context.set_tensor_address("updated", np.zeros_like(arrays["cache"]))
    assert not context.execute_async_v3(0)
    expected = diagnostic("AR711", "updated (test_kv_cache.py:", "cache", "cache", "updated", "cache")
    assert re.search(expected, log.lines[0])
    context.set_tensor_address("updated", arrays["cache"])
    assert context.execute_async_v3(0)
    context.set_tensor_address("cache", np.zeros_like(arrays["cache"]))
    assert not context.execute_async_v3(0)


def test_an_update_must_not_touch_other_inputs(bound, log):
    context, arrays = bound
    context.set_tensor_address("updated", arrays["cache"])
    context.set_tensor_address("new", arrays["cache"][1:].reshape(-1)[:8])
    assert not context.execute_async_v3(0)
    assert "[AR711] updated (test_kv_cache.py:" in log.lines[0]
    assert "[AR711]" in log.lines[0]


def test_the_engine_names_the_cache(net):
    updating(net)
    engine = built(net)
    assert [engine.get_aliased_input_tensor(n) for n in ("updated", "cache", "?")] == ["cache", None, None]
    again = trt.Runtime(trt.Logger()).deserialize_cuda_engine(engine.serialize())
    assert again.get_aliased_input_tensor("updated") == "cache"


def test_running_with_arrays_leaves_the_cache_as_it_is(net):
    updating(net)
    cache, new = np.zeros((2, 1, 6, 2), np.float32), np.ones((2, 1, 2, 2), np.float32)
    updated = built(net).run(cache=cache, new=new, at=np.int32([4, 3]))["updated"]
    assert (cache.sum(), updated[:, 0, :, 0].tolist()) == (0, [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]])


def test_a_tensor_that_is_no_cache_is_rejected_while_building(net):
    cache, layer = updating(net, mark=False)
    net.mark_output(net.add_identity(layer.get_output(0)).get_output(0))
    with trt.strict(), pytest.raises(GraphError, match=r"AR409.*KVCacheUpdate.*mark_output"):
        built(net)
    net.mark_output(layer.get_output(0))
    assert built(net) is not None
    layer.set_input(0, net.add_identity(cache).get_output(0))
    with (
        trt.strict(),
        pytest.raises(GraphError, match=diagnostic("AR409", "[KVCacheUpdate]", "[Identity]_output")),
    ):
        built(net)


def test_a_cache_with_two_updates_is_rejected_while_building(net):
    cache, layer = updating(net)
    again = net.add_kv_cache_update(cache, *(layer.get_input(k) for k in (1, 2)), LINEAR)
    again.get_output(0).name = "again"
    net.mark_output(again.get_output(0))
    with trt.strict(), pytest.raises(GraphError, match=r"AR409.*which .*KVCacheUpdate.* updates"):
        built(net)


READERS = {
    "element by element": lambda net, cache, y: net.add_unary(cache, trt.UnaryOperation.NEG),
    "passed on": lambda net, cache, y: net.add_identity(cache),
    "with the update": lambda net, cache, y: net.add_elementwise(y, cache, trt.ElementWiseOperation.SUB),
    "across positions": lambda net, cache, y: net.add_reduce(cache, trt.ReduceOperation.SUM, 1 << 2, True),
    "in a product": lambda net, cache, y: net.add_matrix_multiply(
        cache, trt.MatrixOperation.NONE, y, trt.MatrixOperation.TRANSPOSE
    ),
}
EXPECTED = {
    "element by element": lambda old, new: -old,
    "passed on": lambda old, new: old,
    "with the update": lambda old, new: new - old,
    "across positions": lambda old, new: old.sum(2, keepdims=True),
    "in a product": lambda old, new: old @ new.swapaxes(2, 3),
}


@pytest.mark.parametrize("reader", READERS)
def test_another_layer_reads_the_cache_as_it_was(net, reader):
    cache, layer = updating(net)
    read = READERS[reader](net, cache, layer.get_output(0)).get_output(0)
    read.name = "read"
    net.mark_output(read)
    old = np.arange(24, dtype=np.float32).reshape(2, 1, 6, 2)
    arrays = {"cache": old.copy(), "new": np.full((2, 1, 2, 2), 50, np.float32), "at": np.int32([4, 1])}
    context = built(net).create_execution_context()
    arrays |= {"updated": arrays["cache"], "read": np.empty(tuple(read.shape), np.float32)}
    assert all(context.set_tensor_address(name, array) for name, array in arrays.items())
    assert context.execute_async_v3(0)
    assert arrays["cache"][:, 0, :, 0].tolist() == [[0, 2, 4, 6, 50, 50], [12, 50, 50, 18, 20, 22]]
    assert arrays["read"].tolist() == EXPECTED[reader](old, arrays["cache"]).tolist()


def test_the_update_may_be_computed_from_the_cache(net):
    cache, layer = updating(net)
    shifted = net.add_slice(cache, (0, 0, 1, 0), (2, 1, 2, 2), (1, 1, 1, 1))
    layer.set_input(1, shifted.get_output(0))
    old = np.arange(24, dtype=np.float32).reshape(2, 1, 6, 2)
    new = np.zeros((2, 1, 2, 2), np.float32)
    y = built(net).run(cache=old, new=new, at=np.int32([2, 0]))["updated"]
    assert y[:, 0, :, 0].tolist() == [[0, 2, 2, 4, 8, 10], [14, 16, 16, 18, 20, 22]]


def test_a_cache_that_nothing_alive_reads_is_not_copied(net):
    cache, _ = updating(net)
    net.add_unary(cache, trt.UnaryOperation.NEG)
    assert built(net).num_layers == 2


def test_the_sizes_of_a_cache_may_be_read(net):
    cache, _ = updating(net)
    net.mark_output(net.add_shape(cache).get_output(0))
    assert built(net) is not None


@pytest.mark.parametrize("index", [5, -1])
def test_constant_positions_outside_the_cache_are_rejected(net, log, index):
    cache, new = net.add_input("cache", F, (1, 1, 6, 2)), net.add_input("new", F, (1, 1, 2, 2))
    at = net.add_constant((1,), np.int32([index])).get_output(0)
    layer = net.add_kv_cache_update(cache, new, at, LINEAR)
    assert layer.get_output(0).shape.rank == -1
    assert re.search(diagnostic("AR131", "[KVCacheUpdate]", 2, index, 6), log.lines[0])


def test_packed_tokens_have_lengths(net):
    cache, new = net.add_input("cache", F, (2, 1, 6, 1)), net.add_input("new", F, (3, 1, 1))
    layer = net.add_kv_cache_update(cache, new, net.add_input("at", trt.int32, (2,)), LINEAR)
    layer.update_form = trt.AttentionIOForm.PACKED_NHD
    layer.update_lengths = lengths = net.add_input("lengths", trt.int32, (3,))
    assert (layer.update_lengths, layer.get_input(3)) == (lengths, lengths)
    layer.get_output(0).name = "updated"
    net.mark_output(layer.get_output(0))
    feeds = {"new": np.float32([1, 2, 3]).reshape(3, 1, 1), "lengths": np.int32([0, 1, 3])}
    cache = np.zeros((2, 1, 6, 1), np.float32)
    updated = built(net).run(cache=cache, at=np.int32([4, 0]), **feeds)["updated"]
    assert updated.reshape(2, 6).tolist() == [[0, 0, 0, 0, 1, 0], [2, 3, 0, 0, 0, 0]]


def test_packed_tokens_stay_inside_the_cache(net, log):
    cache, new = net.add_input("cache", F, (2, 1, 6, 1)), net.add_input("new", F, (3, 1, 1))
    layer = net.add_kv_cache_update(cache, new, net.add_input("at", trt.int64, (2,)), LINEAR)
    layer.update_form = trt.AttentionIOForm.PACKED_NHD
    layer.update_lengths = net.add_input("lengths", trt.int32, (3,))
    net.mark_output(layer.get_output(0))
    engine = built(net)
    feeds = {"new": np.ones((3, 1, 1), np.float32), "cache": np.zeros((2, 1, 6, 1), np.float32)}
    no_tokens, too_long = np.int32([0, 3, 3]), np.int32([0, 1, 3])
    assert engine.run(**feeds, at=np.int64([3, 1 << 62]), lengths=no_tokens)
    with (
        trt.strict(),
        pytest.raises(ShapeError, match=diagnostic("AR131", "(test_kv_cache.py:", 5, 0, 5, 6)),
    ):
        engine.run(**feeds, at=np.int64([0, 5]), lengths=too_long)


def test_positions_that_are_known_at_the_call_are_rejected_there(net, log):
    cache, new = net.add_input("cache", F, (1, 1, 6, 2)), net.add_input("new", F, (1, 1, 2, 2))
    at = net.add_input("at", trt.int32, (1,))  # a shape tensor, because it is also the start of a slice
    layer = net.add_kv_cache_update(cache, new, at, LINEAR)
    rest = net.add_slice(net.add_input("x", F, (9,)), (0,), (1,), (1,))
    rest.set_input(1, at)
    for tensor, name in ((layer.get_output(0), "updated"), (rest.get_output(0), "rest")):
        tensor.name = name
        net.mark_output(tensor)
    config, profile = net.builder.create_builder_config(), net.builder.create_optimization_profile()
    profile.set_shape_input("at", (0,), (1,), (8,))
    config.add_optimization_profile(profile)
    engine = net.builder.build_engine_with_config(net, config)
    feeds = {"cache": np.zeros((1, 1, 6, 2), np.float32), "new": np.ones((1, 1, 2, 2), np.float32)}
    feeds["x"] = np.zeros(9, np.float32)
    assert engine.run(**feeds, at=np.int32([4]))["updated"].sum() == 4
    with (
        trt.strict(),
        pytest.raises(ShapeError, match=diagnostic("AR131", "[KVCacheUpdate]", 7, "at[0] = 5", 6)),
    ):
        engine.run(**feeds, at=np.int32([5]))


def test_a_run_with_packed_lengths_that_do_not_ascend_is_rejected(net, log):
    cache, new = net.add_input("cache", F, (2, 1, 6, 2)), net.add_input("new", F, (3, 1, 2))
    layer = net.add_kv_cache_update(cache, new, net.add_input("at", trt.int32, (2,)), LINEAR)
    layer.update_form, layer.update_lengths = (
        trt.AttentionIOForm.PACKED_NHD,
        net.add_input("ends", trt.int32, (3,)),
    )
    layer.get_output(0).name = "updated"
    net.mark_output(layer.get_output(0))
    context, arrays = (
        built(net).create_execution_context(),
        {
            "cache": np.zeros((2, 1, 6, 2), np.float32),
            "new": np.arange(1, 7, dtype=np.float32).reshape(3, 1, 2),
            "at": np.int32([0, 3]),
            "ends": np.int32([0, 1, 3]),
        },
    )
    for name, array in arrays.items():
        context.set_tensor_address(name, array)
    context.set_tensor_address("updated", arrays["cache"])
    assert context.execute_async_v3(0)
    for ends in ([0, 3, 1], [0, 1, 4], [-1, 1, 3]):
        arrays["ends"][:] = ends
        with (
            trt.strict(),
            pytest.raises(ShapeError, match=diagnostic("AR133", "[KVCacheUpdate]", "update_lengths", 0, 3)),
        ):
            context.execute_async_v3(0)
    assert arrays["cache"][1, 0].tolist() == [[0, 0], [0, 0], [0, 0], [3, 4], [5, 6], [0, 0]]
