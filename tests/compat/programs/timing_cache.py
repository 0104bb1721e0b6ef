"""Keep a timing cache in a file over two builds, combine it with another, and read its entries.

usage: timing_cache.py FILE
"""

import os
import sys

import numpy as np
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


def setup_timing_cache(config, path):
    buffer = b""
    if os.path.exists(path):
        with open(path, mode="rb") as timing_cache_file:
            buffer = timing_cache_file.read()
    cache = config.create_timing_cache(buffer)
    assert config.set_timing_cache(cache, ignore_mismatch=False)
    return cache


def save_timing_cache(config, path):
    cache = config.get_timing_cache()
    with open(path, "wb") as timing_cache_file:
        timing_cache_file.write(memoryview(cache.serialize()))


def build(path, channels, flags=()):
    builder = trt.Builder(TRT_LOGGER)
    network, config = builder.create_network(0), builder.create_builder_config()
    for flag in flags:
        config.set_flag(flag)
    network.name = "net"
    cache = setup_timing_cache(config, path)
    w = np.random.default_rng(0).standard_normal((channels, 4, 3, 3)).astype(np.float32)
    x = network.add_input("x", trt.float32, (1, 4, 16, 16))
    network.mark_output(network.add_convolution_nd(x, channels, (3, 3), w).get_output(0))
    plan = builder.build_serialized_network(network, config)
    save_timing_cache(config, path)
    return bytes(plan), cache


def main():
    path = sys.argv[1]
    first, cache = build(path, 8)
    size = os.path.getsize(path)
    assert size > 0
    second, again = build(path, 8)
    assert first == second
    assert [str(k) for k in cache.queryKeys()] == [str(k) for k in again.queryKeys()]
    build(path, 16)
    assert os.path.getsize(path) >= size
    other = path + ".other"
    _, own = build(other, 32)
    builder = trt.Builder(TRT_LOGGER)
    config = builder.create_builder_config()
    with open(path, "rb") as f:
        merged = config.create_timing_cache(f.read())
    assert merged.combine(own, ignore_mismatch=True)
    for key in merged.queryKeys():
        value = merged.query(key)
        assert value.timingMSec >= 0
    assert merged.reset()
    assert len(merged.queryKeys()) == 0
    assert config.set_timing_cache(merged, True)
    config.set_flag(trt.BuilderFlag.DISABLE_TIMING_CACHE)
    print("PASSED")


if __name__ == "__main__":
    main()
