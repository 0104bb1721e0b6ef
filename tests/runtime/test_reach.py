"""Invalid addresses are rejected before any access; each of these used to crash the process."""

import ctypes
import errno
import mmap
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anyrt as trt
from anyrt.compat.cuda import runtime as cudart
from anyrt.core.errors import BindingError
from anyrt.runtime import reach
from tests.messages import diagnostic

PAGE = mmap.PAGESIZE
X = np.linspace(-1, 1, 1024, dtype=np.float32)
WILD = {"low": 12345, "no user's": 1 << 47, "the last": (1 << 63) - PAGE}


def built(shape):
    """y = max(x, 0)."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network()
    x = network.add_input("x", trt.float32, shape)
    y = network.add_activation(x, trt.ActivationType.RELU).get_output(0)
    y.name = "y"
    network.mark_output(y)
    return builder.build_engine_with_config(network, builder.create_builder_config())


@pytest.fixture(scope="module")
def engine():
    return built((1024,))


@pytest.fixture
def bound(engine):
    """A context that has run with these arrays."""
    context, arrays = engine.create_execution_context(), {"x": X.copy(), "y": np.zeros(1024, np.float32)}
    for name, array in arrays.items():
        context.set_tensor_address(name, array.ctypes.data)
    assert context.execute_async_v3(0)
    return context, arrays


@pytest.fixture
def libc():
    """The functions of C for mappings."""
    functions = ctypes.CDLL(None)
    functions.mmap.restype = ctypes.c_void_p
    functions.mmap.argtypes = [ctypes.c_void_p, *[ctypes.c_size_t] * 5]
    functions.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return functions


@pytest.fixture(params=["asked", "listed", "populated"])
def way(request, monkeypatch):
    """The system interface used: a query for each mapping, the list of all mappings, or pages alone."""

    def unknown(*_):
        raise OSError(errno.ENOTTY, "unknown")

    if request.param != "asked":
        monkeypatch.setattr(reach, "_queried", unknown)
    if request.param == "populated":
        monkeypatch.setattr(reach, "_listed", unknown)
    monkeypatch.setattr(reach, "FEW", 0 if request.param == "listed" else reach.FEW)
    return request.param


def anonymous(libc, nbytes, rights=mmap.PROT_READ | mmap.PROT_WRITE):
    """The address of a new mapping of this size."""
    return libc.mmap(None, nbytes, rights, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, (1 << 64) - 1, 0)


def refused(context):
    with trt.strict(), pytest.raises(BindingError, match="AR712") as error:
        context.execute_async_v3(0)
    return str(error.value)


@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("address", WILD.values(), ids=WILD)
def test_an_address_without_memory_is_rejected(bound, name, address):
    context, arrays = bound
    assert context.set_tensor_address(name, address)
    assert re.match(diagnostic("AR712", name, f"{address:#x}", 4096), refused(context))
    context.set_tensor_address(name, arrays[name].ctypes.data)
    assert context.execute_async_v3(0)
    np.testing.assert_array_equal(arrays["y"], np.maximum(X, 0))


@pytest.mark.parametrize("address", WILD.values(), ids=WILD)
def test_a_list_of_bindings_without_memory_is_rejected(engine, address):
    with trt.strict(), pytest.raises(BindingError, match="AR712"):
        engine.create_execution_context().execute_v2([address, X.ctypes.data])


def test_memory_that_ends_too_early_is_rejected(bound, golden_text):
    context, _ = bound
    pages = mmap.mmap(-1, 2 * PAGE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    context.set_tensor_address("x", first)
    assert context.execute_async_v3(0)
    ctypes.CDLL(None).munmap(ctypes.c_void_p(first + PAGE), PAGE)
    context.set_tensor_address("x", first + 16)
    golden_text(refused(context), "16 bytes")


def test_an_output_in_memory_that_may_only_be_read_is_rejected(bound, tmp_path, golden_text):
    context, _ = bound
    (tmp_path / "file").write_bytes(bytes(2 * PAGE))
    with (tmp_path / "file").open("rb") as file:
        array = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.float32)
    context.set_tensor_address("x", array.ctypes.data)
    assert context.execute_async_v3(0)
    context.set_tensor_address("y", array.ctypes.data + PAGE)
    golden_text(refused(context), "y")


def test_memory_that_nobody_may_read_is_rejected(bound, libc, golden_text):
    context, _ = bound
    context.set_tensor_address("x", anonymous(libc, PAGE, 0))
    golden_text(refused(context), "x")


@pytest.mark.parametrize("page", [1, 40, 63])
@pytest.mark.parametrize(
    ("rights", "writes", "lacks"),
    [
        (0, False, "may not be read"),
        (0, True, "may not be written"),
        (mmap.PROT_READ, False, ""),
        (mmap.PROT_READ, True, "may not be written"),
    ],
)
def test_one_page_in_the_middle_decides(libc, page, rights, writes, lacks):
    place = anonymous(libc, 64 * PAGE)
    libc.mprotect(place + page * PAGE, PAGE, rights)
    expected = f"memory that {lacks} beyond {page * PAGE - 8} bytes" if lacks else ""
    assert reach.lack(place + 8, 64 * PAGE - 8, writes=writes) == expected
    assert reach.lack(place + 8, page * PAGE - 8, writes=writes) == ""


def test_every_way_of_asking_finds_what_is_not_there(libc, way):
    place = anonymous(libc, 64 * PAGE)
    assert reach.lack(place, 64 * PAGE, writes=True) == ""
    libc.munmap(ctypes.c_void_p(place + 40 * PAGE), PAGE)
    assert reach.lack(place, 64 * PAGE, writes=True)
    assert reach.lack(place, 40 * PAGE, writes=True) == ""
    assert reach.lack(12345, 16, writes=False) == "no memory of this process"


def test_a_mapping_that_is_longer_than_its_file_is_rejected(way, tmp_path):
    (tmp_path / "file").write_bytes(bytes(3 * PAGE))
    with (tmp_path / "file").open("r+b") as file:
        place = ctypes.addressof(ctypes.c_char.from_buffer(mapped := mmap.mmap(file.fileno(), 3 * PAGE)))
        assert reach.lack(place, len(mapped), writes=False) == ""
        file.truncate(PAGE)
        assert reach.lack(place, 2 * PAGE, writes=False)
        assert reach.lack(place, PAGE, writes=False) == ""


IN_A_THREAD = """
import threading
import numpy as np
from tests.runtime.test_reach import built, refused

def work():
    small, y = np.zeros(3000, np.float32), np.zeros(1 << 20, np.float32)
    context = large.create_execution_context()
    context.set_tensor_address("x", small.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    print(refused(context))

large = built((1 << 20,))
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def printed(program):
    """The output of a separate process: other tests enlarge arenas, and map memory that was freed."""
    paths = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def test_an_array_of_a_thread_is_no_room_for_more():
    """A thread's malloc arena is followed by addresses reserved for it, without access rights."""
    assert "AR712" in printed(IN_A_THREAD)


def test_a_child_process_asks_about_its_own_memory(libc):
    place = anonymous(libc, PAGE)
    assert reach.lack(place, PAGE, writes=False) == ""
    child = os.fork()
    if not child:
        libc.munmap(ctypes.c_void_p(place), PAGE)
        os._exit(bool(reach.lack(place, PAGE, writes=False)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@pytest.mark.skipif(not reach._ASKS, reason="this system tells of no single mappings: before Linux 6.11")
def test_the_list_of_mappings_is_opened_again_where_it_was_closed():
    os.close(reach._own_list(os.getpid()))
    array = np.zeros(16, np.float32)
    assert [reach.lack(array.ctypes.data, 64, writes=True) for _ in range(2)] == ["", ""]
    assert reach.lack(12345, 16, writes=False) == "no memory of this process"
    os.fstat(reach._own_list(os.getpid()))


def test_sizes_at_an_address_without_memory_are_rejected():
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, config = builder.create_network(), builder.create_builder_config()
    x, n = network.add_input("x", trt.float32, (-1,)), network.add_input("n", trt.int32, (1,))
    layer = network.add_shuffle(x)
    layer.set_input(1, n)
    network.mark_output(layer.get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1,), (4,), (8,))
    profile.set_shape_input("n", (1,), (4,), (8,))
    config.add_optimization_profile(profile)
    context = builder.build_engine_with_config(network, config).create_execution_context()
    context.set_input_shape("x", (4,))
    context.set_tensor_address("n", 12345)
    with trt.strict(), pytest.raises(BindingError, match=diagnostic("AR712", "n", "0x3039")):
        context.infer_shapes()


def test_working_memory_without_memory_is_rejected(engine):
    context = engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
    with trt.strict(), pytest.raises(BindingError, match=diagnostic("AR712", "device memory", "0x100000")):
        context.set_device_memory(1 << 20, 4096)


def test_an_allocator_that_answers_with_no_memory_is_rejected(engine):
    class Wild(trt.IOutputAllocator):
        def reallocate_output(self, name, memory, size, alignment):
            return 12345

        def notify_shape(self, name, shape):
            pass

    context, wild = engine.create_execution_context(), Wild()
    context.set_tensor_address("x", X.ctypes.data)
    context.set_output_allocator("y", wild)
    assert "address 0x3039" in refused(context)


def test_a_block_that_is_too_small_is_rejected(bound):
    context, arrays = bound
    _, block = cudart.cudaMalloc(4096)
    context.set_tensor_address("x", block)
    assert context.execute_async_v3(0)
    context.set_tensor_address("x", block + 256)
    assert re.match(diagnostic("AR712", "x", 3840, 4096), refused(context))
    context.set_tensor_address("x", arrays["x"].ctypes.data)
    assert context.execute_async_v3(0)
    cudart.cudaFree(block)


GIVEN_BACK = """
from anyrt.compat.cuda import runtime as cudart
from tests.runtime.test_reach import X, built, refused

context, x = built((1024,)).create_execution_context(), X.copy()
_, block = cudart.cudaMalloc(1 << 26)  # which the system takes back at once
context.set_tensor_address("x", x.ctypes.data)
context.set_tensor_address("y", block)
assert context.execute_async_v3(0)
cudart.cudaFree(block)
print(refused(context))
"""


def test_a_block_that_was_given_back_is_rejected():
    assert "no memory of this process" in printed(GIVEN_BACK)


@pytest.mark.parametrize("nbytes", [4096, 1 << 18, 1 << 22])
@pytest.mark.parametrize("name", ["x", "y"])
def test_a_block_that_was_given_back_is_rejected_while_malloc_has_its_memory(
    engine, name, nbytes, golden_text
):
    arrays = {"x": X.copy(), "y": np.zeros(1024, np.float32)}
    _, block = cudart.cudaMalloc(nbytes)
    cudart.cudaFree(block)
    context = engine.create_execution_context()
    for each, array in arrays.items():
        context.set_tensor_address(each, block if each == name else array.ctypes.data)
    golden_text(refused(context), name)
    kind = cudart.cudaMemcpyKind.cudaMemcpyDefault
    assert cudart.cudaMemcpy(X.ctypes.data, block, 64, kind)[0] == cudart.cudaError_t.cudaErrorInvalidValue


def test_memory_of_the_program_that_was_registered_stays_memory(bound):
    context, arrays = bound
    place = arrays["x"].ctypes.data
    cudart.cudaHostRegister(place, 4096, 0)
    cudart.cudaHostUnregister(place)
    assert context.execute_async_v3(0)
    assert reach.lack(place, 4096, writes=True) == ""


def test_few_blocks_that_were_given_back_are_held():
    blocks = [cudart.cudaMalloc(1 << 20)[1] for _ in range(40)]
    for block in blocks:
        cudart.cudaFree(block)
    messages = [reach.lack(block, 16, writes=False) for block in blocks]
    assert messages[8:] == ["an allocation that was given back"] * 32
    assert "an allocation that was given back" not in messages[:8]


def test_a_smaller_block_at_the_same_place_is_rejected(bound, monkeypatch):
    context, arrays = bound
    rooms = {arrays["x"].ctypes.data: 4096}
    monkeypatch.setattr(reach, "_rooms", [rooms.get])
    context.set_tensor_address("x", arrays["x"].ctypes.data)
    reach.freed(arrays["x"].ctypes.data, 4096)
    assert context.execute_async_v3(0)
    rooms[arrays["x"].ctypes.data] = 1024
    reach.freed(arrays["x"].ctypes.data, 4096)
    assert re.match(diagnostic("AR712", "x", 1024, 4096), refused(context))


def test_memory_may_be_given_back_while_memory_is_given_back(bound, monkeypatch):
    class Ends:
        def forget(self, begin, end):
            if begin == 64:
                reach.freed(128, 64)

    ends, messages = Ends(), []
    monkeypatch.setattr(
        reach, "_listeners", [ends, type("", (), {"forget": lambda s, b, e: messages.append(b)})()]
    )
    with reach._lock:
        reach.freed(64, 64)
    assert messages == [128, 64]


def test_addresses_are_looked_at_once(bound, monkeypatch):
    context, arrays = bound
    others = np.zeros((500, 1024), np.float32)  # as many as a program uses in turn
    places = (arrays["x"].ctypes.data, *(other.ctypes.data for other in others))
    for place in places:
        context.set_tensor_address("x", place)
        assert context.execute_async_v3(0)
    asked = []
    monkeypatch.setattr(reach, "lack", lambda *place, **_: asked.append(place) or "")
    for place in places * 3:
        context.set_tensor_address("x", place)
        assert context.execute_async_v3(0)
    assert asked == []
