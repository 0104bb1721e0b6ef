"""Layers with data-dependent positions, many out of range, between protected pages: an access outside a
tensor crashes this process."""

import ctypes
import mmap

import numpy as np

import anyrt as trt

PAGE, FAR = mmap.PAGESIZE, 1 << 40
libc = ctypes.CDLL(None, use_errno=True)
F, HALF, INT32, INT64 = trt.float32, trt.float16, trt.int32, trt.int64
LINEAR, SOFTMAX = trt.KVCacheMode.LINEAR, trt.AttentionNormalizationOp.SOFTMAX
OUTSIDE = (8, -1, FAR, -FAR, 1 << 62)
LOWER = trt.CausalMaskKind.LOWER_RIGHT


def between(nbytes, *, at_the_end):
    """Address of `nbytes` next to a protected page, and the object that owns the memory."""
    size = (nbytes + PAGE - 1) // PAGE * PAGE
    space = mmap.mmap(-1, size + 2 * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(space))
    for page in (start, start + PAGE + size):
        assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0) == 0
    return space, start + PAGE + (size - nbytes if at_the_end else 0)


def rotary(net, dtype):
    x = net.add_input("x", dtype, (2, 3, 5, 34))
    caches = (net.add_input(name, dtype, (7, 17)) for name in ("cos", "sin"))
    layer = net.add_rotary_embedding(x, *caches, False, 0)
    layer.set_input(3, net.add_input("ids", INT64, (2, 5)))
    return {"y": layer}, {"ids": np.array([[0, 6, 7, -1, FAR], [-FAR, 3, 8, 1 << 62, -(1 << 62)]])}


def cached(net, dtype):
    """Cache updates at the ends, and attention with out-of-range lengths."""
    cache, new = net.add_input("cache", dtype, (6, 1, 9, 17)), net.add_input("new", dtype, (6, 1, 2, 17))
    update = net.add_kv_cache_update(cache, new, net.add_input("at", INT64, (6,)), LINEAR)
    query, values = (
        net.add_input("query", dtype, (6, 2, 3, 17)),
        net.add_input("values", dtype, (6, 1, 9, 17)),
    )
    attention = net.add_attention_v2(query, update.get_output(0), values, SOFTMAX, LOWER)
    attention.key_value_lengths = net.add_input("lengths", INT32, (6,))
    feeds = {"at": np.array([7, 0, 3, 6, 0, 7]), "lengths": np.int32([9, 0, 3, 1, 9, 2])}
    return {"cache_out": update, "y": attention}, feeds


for describe, dtype in ((rotary, F), (rotary, HALF), (cached, F), (cached, HALF)):
    builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
    net = builder.create_network()
    ends, feeds = describe(net, dtype)
    for name, layer in ends.items():
        layer.get_output(0).name = name
        net.mark_output(layer.get_output(0))
    engine = builder.build_engine_with_config(net, builder.create_builder_config())
    random = np.random.default_rng(0)
    for name in (n for n in engine if n not in feeds and n not in ends):
        feeds[name] = random.standard_normal(engine.get_tensor_shape(name)).astype(trt.nptype(dtype))
    wanted = engine.run(**feeds)
    for at_the_end in (True, False):
        context, held = engine.create_execution_context(), {}
        for name in engine:
            array = feeds[name] if name in feeds else wanted[name]
            source = engine.get_aliased_input_tensor(name)
            held[name] = held[source] if source else between(array.nbytes, at_the_end=at_the_end)
            if name in feeds:
                ctypes.memmove(held[name][1], np.ascontiguousarray(array).ctypes.data, array.nbytes)
            assert context.set_tensor_address(name, held[name][1])
        assert context.execute_async_v3(0)
        for name, array in wanted.items():
            assert ctypes.string_at(held[name][1], array.nbytes) == array.tobytes(), (name, dtype)
        for wrong in OUTSIDE if "at" in feeds else ():
            ctypes.memmove(held["at"][1], np.full(6, wrong).ctypes.data, 6 * 8)
            assert not context.execute_async_v3(0)
            cache = wanted["cache_out"]
            assert ctypes.string_at(held["cache"][1], cache.nbytes) == cache.tobytes(), wrong
            ctypes.memmove(held["at"][1], feeds["at"].ctypes.data, 6 * 8)
        for wrong in (-5, 10, 1 << 30) if "lengths" in feeds else ():
            ctypes.memmove(held["lengths"][1], np.full(6, wrong, np.int32).ctypes.data, 6 * 4)
            assert not context.execute_async_v3(0)
    print("ok", flush=True)
