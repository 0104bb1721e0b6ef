"""Memory of a context: its owner, size and time of allocation, for an engine that stores 256 bytes for each
image."""

import gc

import numpy as np
import pytest

import anyrt as trt

Strategy = trt.ExecutionContextAllocationStrategy
IMAGE = 64 * 4


class Blocks(trt.IGpuAllocator):
    """Allocates with NumPy and records the requests."""

    def __init__(self):
        trt.IGpuAllocator.__init__(self)
        self.asked, self.live, self.freed = [], {}, 0

    def allocate(self, size, alignment, flags):
        block = np.zeros(size + alignment, np.uint8)
        address = block.ctypes.data + -block.ctypes.data % alignment
        self.asked.append(size)
        self.live[address] = block
        return address

    def deallocate(self, memory):
        self.freed += 1
        return self.live.pop(memory) is not None


@pytest.fixture(scope="module")
def network_and_config():
    """The sums of 64 rows are stored, because a cubic resize reads each four times; 1 to 16 images, or 1 to
    64."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (-1, 64, 64))
    resize = network.add_resize(network.add_reduce(x, trt.ReduceOperation.SUM, 0b100, False).get_output(0))
    resize.resize_mode, resize.scales = trt.InterpolationMode.CUBIC, (1.5, 1.5)
    resize.get_output(0).name = "y"
    network.mark_output(resize.get_output(0))
    for most in (16, 64):
        profile = builder.create_optimization_profile()
        profile.set_shape("x", (1, 64, 64), (most, 64, 64), (most, 64, 64))
        config.add_optimization_profile(profile)
    return builder, network, config


@pytest.fixture(scope="module")
def plan(network_and_config):
    builder, network, config = network_and_config
    return builder.build_serialized_network(network, config)


def bound(context, images=16):
    """The context with its tensors bound, and the output."""
    x = np.ones((images, 64, 64), np.float32)
    context.set_input_shape("x", x.shape)
    y = np.zeros(tuple(context.get_tensor_shape("y")), np.float32)
    context.set_tensor_address("x", x)
    context.set_tensor_address("y", y)
    return y


def aligned(size):
    block = np.zeros(size + 64, np.uint8)
    return block[-block.ctypes.data % 64 :][:size]


def test_profiles_need_memory_for_their_largest_shapes(engine, log):
    sizes = [engine.get_device_memory_size_for_profile_v2(p) for p in (0, 1)]
    assert sizes[1] - sizes[0] == (64 - 16) * IMAGE
    assert (engine.device_memory_size_v2, engine.device_memory_size) == (sizes[1], sizes[1])
    assert [engine.get_device_memory_size_for_profile(p) for p in (0, 1)] == sizes
    assert log.lines == []
    assert engine.get_device_memory_size_for_profile_v2(2) == 0
    assert "AR507" in log.lines[0]


def test_shapes_need_memory_for_themselves(context, engine, log):
    assert context.update_device_memory_size_for_shapes() == 0
    assert "AR707" in log.lines[0]
    sizes = [(bound(context, n), context.update_device_memory_size_for_shapes())[1] for n in (1, 5, 16)]
    assert np.diff(sizes).tolist() == [4 * IMAGE, 11 * IMAGE]
    assert sizes[-1] == engine.get_device_memory_size_for_profile_v2(0)


@pytest.fixture
def blocks():
    return Blocks()


@pytest.fixture
def allocated(plan, log, blocks):
    """The engine that allocates its memory from `blocks`."""
    runtime = trt.Runtime(log)
    runtime.gpu_allocator = blocks
    return runtime.deserialize_cuda_engine(plan)


def test_static_contexts_take_the_memory_of_all_profiles_when_made(allocated, blocks):
    before = len(blocks.asked)
    context = allocated.create_execution_context()
    assert context.get_runtime_config() is None
    assert context.set_optimization_profile_async(1, 0)
    assert blocks.asked[before:] == [allocated.device_memory_size_v2]


def test_contexts_on_profile_change_take_the_memory_of_one_profile(allocated, blocks):
    before = len(blocks.asked)
    context = allocated.create_execution_context(Strategy.ON_PROFILE_CHANGE)
    assert context.set_optimization_profile_async(1, 0)
    sizes = [allocated.get_device_memory_size_for_profile_v2(p) for p in (0, 1)]
    assert blocks.asked[before:] == sizes
    assert blocks.freed == 1


@pytest.mark.parametrize("form", ["strategy", "config", "older name"])
def test_user_managed_contexts_work_in_the_memory_they_are_given(form, allocated, blocks, log):
    config = allocated.create_runtime_config()
    config.set_execution_context_allocation_strategy(Strategy.USER_MANAGED)
    context = {
        "strategy": lambda: allocated.create_execution_context(Strategy.USER_MANAGED),
        "config": lambda: allocated.create_execution_context(runtime_config=config),
        "older name": allocated.create_execution_context_without_device_memory,
    }[form]()
    y, size = bound(context), allocated.get_device_memory_size_for_profile_v2(0)
    assert not context.execute_async_v3(0)
    assert "AR801" in log.lines[0]
    memory = aligned(size)
    context.set_device_memory(memory.ctypes.data, size)
    assert context.execute_async_v3(0)
    np.testing.assert_allclose(y, 64, rtol=1e-5)
    assert np.all(memory[: 16 * IMAGE].view(np.float32) == 64)
    assert size not in blocks.asked


def test_too_little_device_memory_is_rejected(engine, log):
    context = engine.create_execution_context(Strategy.USER_MANAGED)
    bound(context)
    memory = aligned(engine.device_memory_size_v2)
    context.set_device_memory(memory.ctypes.data, engine.get_device_memory_size_for_profile_v2(0) - 1)
    assert not context.execute_async_v3(0)
    assert ("AR801" in log.lines[0], memory.any()) == (True, False)


def test_device_memory_without_a_size_has_that_of_the_engine(engine):
    context = engine.create_execution_context(Strategy.USER_MANAGED)
    y, memory = bound(context), aligned(engine.device_memory_size_v2)
    context.device_memory = memory.ctypes.data
    assert context.execute_async_v3(0)
    np.testing.assert_allclose(y, 64, rtol=1e-5)
    assert np.all(memory[: 16 * IMAGE].view(np.float32) == 64)
    with pytest.raises(AttributeError):
        _ = context.device_memory


def test_the_allocator_gets_back_what_a_context_took(allocated, blocks):
    before = set(blocks.live)
    context = allocated.create_execution_context()
    y = bound(context)
    assert context.execute_async_v3(0)
    np.testing.assert_allclose(y, 64, rtol=1e-5)
    assert set(blocks.live) > before
    del context
    gc.collect()
    assert set(blocks.live) == before


def test_an_allocator_without_memory_makes_no_context(plan, log):
    class Empty(Blocks):
        def allocate(self, size, alignment, flags):
            return None if size > 8 * IMAGE else super().allocate(size, alignment, flags)

    runtime = trt.Runtime(log)
    runtime.gpu_allocator = Empty()
    assert runtime.deserialize_cuda_engine(plan).create_execution_context() is None
    assert "AR802" in log.lines[0]


def test_an_asynchronous_allocator_gets_the_stream_before_the_flags(plan, log):
    class Async(trt.IGpuAsyncAllocator):
        def __init__(self):
            trt.IGpuAsyncAllocator.__init__(self)
            self.blocks, self.calls = Blocks(), []

        def allocate_async(self, size, alignment, stream, flags):
            self.calls.append((size, stream, flags))
            return self.blocks.allocate(size, alignment, flags)

        def deallocate_async(self, memory, stream):
            self.calls.append(("freed", stream))
            return self.blocks.deallocate(memory)

    runtime, allocator = trt.Runtime(log), Async()
    runtime.gpu_allocator = allocator
    context = runtime.deserialize_cuda_engine(plan).create_execution_context()
    assert (context.engine.device_memory_size_v2, 0, 0) in allocator.calls
    del context
    gc.collect()
    assert ("freed", 0) in allocator.calls


def test_the_builders_allocator_serves_engines_that_it_builds(network_and_config):
    builder, network, config = network_and_config
    builder.gpu_allocator = blocks = Blocks()
    context = builder.build_engine_with_config(network, config).create_execution_context()
    assert context.engine.device_memory_size_v2 in blocks.asked
    builder.gpu_allocator = None
    with pytest.raises(TypeError, match="IGpuAllocator"):
        builder.gpu_allocator = print


def test_a_temporary_allocator_is_stored_and_never_called(engine):
    context = engine.create_execution_context()
    context.temporary_allocator = blocks = Blocks()
    bound(context)
    assert context.execute_async_v3(0)
    assert (context.temporary_allocator, blocks.asked) == (blocks, [])
