"""Cases of every operator, built, saved, loaded and run as in production, compared with its reference.

Machine code runs a sample of the cover (telling.py), and with ANYRT_FUZZ=1 all cases.
"""

from functools import partial

import numpy as np
import pytest

from anyrt.backends import loader
from anyrt.backends.cpu.device import CpuDevice
from anyrt.compiler.cached import obtain, obtain_pool
from anyrt.compiler.request import BuildRequest, Settings
from anyrt.core.dtype import is_packed, numpy_dtype, pack4, storage_bytes, unpack4
from anyrt.ops import ALL_OPS
from anyrt.ops._cases import case_run, differences
from anyrt.plan.file import read_plan
from anyrt.plan.plan import Binding, Range
from anyrt.runtime.engine import load
from anyrt.runtime.pool import shared_pool
from tests.native import build
from tests.ops.telling import telling
from tests.sampling import FUZZ, sample

CHUNK = 12  # cases in one test, so that workers share them well
# A fraction of the selected cases runs; static sizes run the same kernels with fewer variables.
STRIDE = {True: 24, False: 120}
GUARD = 256  # bytes around each tensor that must not change
CASES = [
    pytest.param(op, dynamic, start, id=f"{op.layer.name}-{'dynamic' if dynamic else 'static'}-{start}")
    for op in ALL_OPS
    for dynamic in (True, False)
    for start in range(0, len(sample(telling(op), STRIDE[dynamic])), CHUNK)
]


@pytest.fixture(scope="module")
def pool(cache_dir):
    return shared_pool(2, CpuDevice(), lambda: obtain_pool(loader.device(), loader.target))


def request_of(run, checked=False):
    """The request that the API would make of the case's graph: the profile allows exactly its sizes."""
    followed = {s.tensor for s in run.graph.symbols if s.is_value and s.sym.most is None}
    inputs = [Binding(n, True, v.dtype, v.shape, n in followed) for n, v in run.graph.inputs]
    outputs = [Binding(n, False, v.dtype, v.shape) for n, v in run.graph.outputs]
    fixed = [(n, False, run.feeds[n].shape) for n, _ in run.graph.inputs]
    fixed += [(n, True, tuple(run.feeds[n].reshape(-1).tolist())) for n in sorted(followed)]
    ranges = tuple(Range(n, is_values, x, x, x) for n, is_values, x in fixed)
    settings = Settings(checked=checked)
    return BuildRequest("case", run.graph, (ranges,), settings, (*inputs, *outputs))


class Block:
    """Memory of a tensor between two guard strips."""

    def __init__(self, content):
        self.bytes = np.full(content.size + 2 * GUARD, 0xA5, np.uint8)
        self.bytes[GUARD:-GUARD] = content
        self.address = self.bytes.ctypes.data + GUARD

    def is_whole(self):
        return (self.bytes[:GUARD] == 0xA5).all() and (self.bytes[-GUARD:] == 0xA5).all()

    def array(self, dtype, shape):
        count = int(np.prod(shape))
        raw = self.bytes[GUARD : GUARD + storage_bytes(dtype, count)].copy()
        return (unpack4(raw, count, dtype) if is_packed(dtype) else raw.view(numpy_dtype(dtype))).reshape(
            shape
        )


def run_natively(run, pool, checked=False):
    """The outputs by name."""
    file = read_plan(build(request_of(run, checked)))
    code = partial(obtain, device=loader.device(), target=loader.target)
    context = load(file, CpuDevice(), pool, code).create_context()
    blocks = {}
    for name, value in run.graph.inputs:
        data = pack4(run.feeds[name]) if is_packed(value.dtype) else np.ascontiguousarray(run.feeds[name])
        blocks[name] = Block(data.reshape(-1).view(np.uint8))
        context.set_shape(name, run.feeds[name].shape)
        context.set_address(name, blocks[name].address)
    room = dict(zip((b.name for b in file.plan.bindings), context.sizing.resolve().nbytes, strict=True))
    # A data-dependent output without an upper bound has the expected size.
    expected = {n: y.size * 8 for (n, _), y in zip(run.graph.outputs, run.expected, strict=False)}
    for name, _ in run.graph.outputs:
        late = context.loaded.find(name) in context.loaded.late
        blocks[name] = Block(np.zeros(expected[name] if late else room[name], np.uint8))
        context.set_address(name, blocks[name].address)
    context.run()
    shapes = {name: context.sizing.of(name) for name, _ in run.graph.outputs}
    assert all(b.is_whole() for b in blocks.values())
    return {name: blocks[name].array(v.dtype, shapes[name]) for name, v in run.graph.outputs}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("op", "dynamic", "start"), CASES)
def test_native_code_agrees_with_reference(op, dynamic, start, pool):
    cases = sample(telling(op), STRIDE[dynamic])[start : start + CHUNK]
    runs = ((case, case_run(op, case, dynamic)) for case in cases)
    wrong = [(case, line) for case, run in runs for line in differences(run, run_natively(run, pool))]
    assert not wrong


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layer", ["FILL", "ONE_HOT", "RESIZE", "SHUFFLE", "SLICE"])
def test_sizes_that_runs_alone_find_give_the_same(layer, pool):
    op = next(x for x in ALL_OPS if x.layer.name == layer)
    cases = [c for c in op.cases() if any(x is not None for x in c.data) and not c.static_only]
    every = [(case, case_run(op, case, dynamic=True, followed=False)) for case in cases]
    messages = [(any(s.sym.most for s in run.graph.symbols), case, run) for case, run in every]
    runs = [(case, run) for _, case, run in sample(messages, max(1, len(cases) // 6))]
    assert any(s.sym.most for _, run in runs for s in run.graph.symbols)
    wrong = [(case, line) for case, run in runs for line in differences(run, run_natively(run, pool))]
    assert not wrong


@pytest.mark.sampled(5)
@pytest.mark.parametrize("op", ALL_OPS, ids=lambda op: op.layer.name)
def test_code_with_checks_agrees_with_reference(op, pool):
    cases = telling(op)
    runs = [(case, case_run(op, case, dynamic=True)) for case in (cases if FUZZ else cases[-1:])]
    wrong = [(case, line) for case, run in runs for line in differences(run, run_natively(run, pool, True))]
    assert not wrong
