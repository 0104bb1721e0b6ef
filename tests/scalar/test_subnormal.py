"""Subnormal results in native code: for every function, whatever floating-point mode the caller's thread has
set."""

import ctypes
import mmap
import platform
import zlib
from contextlib import contextmanager

import numpy as np
import pytest

import anyrt as trt
from anyrt.backends.cpu.device import CpuDevice
from anyrt.backends.cpu.pool import compile_pool
from anyrt.backends.cpu.processors import Level
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.plan import abi
from anyrt.prims import build as b
from anyrt.prims.scalar import SCALARS, Kind, ResultKind
from anyrt.runtime.pool import Pool
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load
from tests.targets import choose, host

COUNT = 2000
# Functions whose results are 0 or normal numbers, and selections.
NEVER = {
    *("floordiv", "sign", "ceil", "floor", "round", "trunc", "to_half", "to_fp8", "to_fp4", "select"),
    *("log", "sqrt", "rsqrt", "cos", "acos", "cosh", "acosh"),
}
REAL = [f for f in SCALARS.values() if Kind.FLOAT in f.kinds and f.result is ResultKind.SAME]
FUNCTIONS = [f for f in REAL if f.name not in NEVER]
# MXCSR: the default; flush to zero with denormals-are-zero; rounding towards zero.
CONTROLS = {"usual": 0x1F80, "flushing": 0x9FC0, "truncating": 0x7F80}
pytestmark = [
    pytest.mark.here,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the machine code is that of x86-64"),
]


@pytest.fixture(scope="module")
def asking():
    """A block in which the thread has another mode; checks that the mode is kept."""
    space = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    space.write(b"\x0f\xae\x17\xc3\x0f\xae\x1f\xc3")  # ldmxcsr (%rdi), ret; stmxcsr (%rdi), ret
    start = ctypes.addressof(ctypes.c_char.from_buffer(space))
    ask, tell = (ctypes.CFUNCTYPE(None, ctypes.c_void_p)(start + at) for at in (0, 4))

    @contextmanager
    def context(control):
        held, now = ctypes.c_uint32(), ctypes.c_uint32(control)
        tell(ctypes.addressof(held))
        ask(ctypes.addressof(now))
        yield
        tell(ctypes.addressof(now))
        ask(ctypes.addressof(held))
        assert now.value & 0xFFC0 == control

    yield context
    space.close()


def operands(f):
    """Operands with subnormal results: of all bit patterns, small ones, and usual ones."""
    random = np.random.default_rng(zlib.crc32(f.name.encode()))
    shape = (f.arity, 40 * COUNT)
    patterns = random.integers(-(2**31), 2**31, shape).astype(np.int32).view(np.float32)
    small = np.float32(random.integers(-(2**24), 2**24, shape) * 2.0**-149)
    usual = random.uniform(-160, 160, shape).astype(np.float32)
    mixed = np.where(random.random(shape) < 0.5, small, usual)
    args = np.concatenate([patterns, small, usual, mixed], axis=1)
    with np.errstate(all="ignore"):
        exact = f.ref(*args.astype(np.float64))
        kept = (np.abs(exact) < 2.0**-126) & (exact != 0) & np.all(np.abs(args) <= f.domain[1], axis=0)
    chosen = random.permutation(np.flatnonzero(kept))[:COUNT]
    assert chosen.size > COUNT / 4, f"{f.name} makes subnormal numbers, or belongs to NEVER"
    return args[:, chosen], exact[chosen]


@pytest.fixture(scope="module", params=[None, Level.AVX2.value, Level.SSE2.value])
def everything(request):
    """(an engine for all functions of constants, their exact results)."""
    values, exact = [], {}
    for f in FUNCTIONS:
        args, exact[f.name] = operands(f)
        values.append((f.name, b.map_(f.name, *(b.const(x, DataType.FLOAT) for x in args))))
    graph = Graph((), tuple(values))
    lowered = native.lower(graph, constant_offsets(graph), Sizes())
    return Trial(load(lowered, choose(request.param)), {}), exact


@pytest.mark.sampled(9)
@pytest.mark.parametrize("control", CONTROLS)
def test_subnormal_results_are_right_within_their_ulp(everything, asking, control):
    trial, exact = everything
    with asking(CONTROLS[control]):
        trial.run()
    buffers = trial.loaded.lowered.schedule.buffers
    for name, value in trial.loaded.lowered.graph.outputs:
        got = trial.read(buffers[value], DataType.FLOAT, exact[name].shape).astype(np.float64)
        trial.write(buffers[value], np.full(got.shape, np.nan, np.float32), DataType.FLOAT)
        assert np.abs(got - exact[name]).max() <= (SCALARS[name].ulp + 1e-6) * 2.0**-149, name


def test_threads_that_were_started_while_flushing_do_not(asking):
    with asking(CONTROLS["flushing"]):
        pool = Pool(2, CpuDevice().load(compile_pool(host().processor)))
        pool.ensure()
    x = b.param("x", (1 << 20,), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", b.map_("mul", x, b.scalar(1.05, x))),))
    trial = Trial(load(native.lower(graph, {}, Sizes()), host()), {}, pool)
    read, written = (trial.blocks[f"tensor {n}"].bytes[: -abi.ALIGNMENT].view(np.float32) for n in "xy")
    read[:] = 7.97e-40
    for _ in range(20):
        written[:] = 0
        trial.run()
        assert (written == np.float32(8.368498e-40)).all()
    pool.stop()


@pytest.mark.parametrize("control", CONTROLS)
def test_layers_keep_subnormal_numbers(asking, control, tmp_path, monkeypatch):
    """SELU multiplies positive numbers by beta; a power of -1 makes small numbers of large ones."""
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network(0)
    x = network.add_input("x", trt.float32, (1, 1, 1, 3))
    selu = network.add_activation(x, trt.ActivationType.SELU)
    selu.alpha, selu.beta = 1.67, 1.05
    power = trt.Weights(np.float32([-1.0]))
    scale = network.add_scale(x, trt.ScaleMode.UNIFORM, trt.Weights(), trt.Weights(), power)
    for name, layer in (("selu", selu), ("scale", scale)):
        layer.get_output(0).name = name
        network.mark_output(layer.get_output(0))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    fed = np.float32([7.97e-40, 3e38, -2e38]).reshape(1, 1, 1, 3)
    with asking(CONTROLS[control]):
        outputs = engine.run(x=fed)
    assert outputs["selu"].ravel()[0] == np.float32(8.368498e-40)
    assert outputs["scale"].ravel()[1:].tolist() == np.float32([3.333333e-39, -5e-39]).tolist()
