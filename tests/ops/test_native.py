"""Every case of every operator as native code, against the operator's own reference."""

import numpy as np
import pytest

from anyrt.codegen import llvm
from anyrt.compiler import native
from anyrt.compiler.trial import Trial, constant_offsets, load, stored_bytes
from anyrt.core.dims import evaluate
from anyrt.core.dtype import is_packed, numpy_dtype, storage_bytes, unpack4
from anyrt.core.flags import read_flags
from anyrt.ops import OPS
from anyrt.ops._cases import case_run, differences
from anyrt.schedule.cost import Sizes

STATIC_STRIDE = 8  # static sizes run the same kernels with fewer variables: a sample of them is enough


def run_natively(run):
    target = llvm.choose(read_flags().cpu)
    lowered = native.lower(run.graph, constant_offsets(run.graph), Sizes(run.sizes))
    trial = Trial(load(lowered, target), run.sizes)
    for name, value in run.graph.inputs:
        data = stored_bytes(run.feeds[name], value.dtype)
        trial.blocks[f"tensor {name}"].bytes[: data.size] = data
    trial.run()
    assert not trial.overrun()
    return {name: output(trial, name, value, run.sizes) for name, value in run.graph.outputs}


def output(trial, name, value, sizes):
    shape = tuple(evaluate(d, sizes) for d in value.shape)
    count = int(np.prod(shape, dtype=np.int64))
    raw = trial.blocks[f"tensor {name}"].bytes[: storage_bytes(value.dtype, count)]
    flat = (
        unpack4(raw, count, value.dtype)
        if is_packed(value.dtype)
        else raw.copy().view(numpy_dtype(value.dtype))
    )
    return flat.reshape(shape)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.layer.name)
def test_native_code_agrees_with_reference(op, dynamic):
    runs = ((c, case_run(op, c, dynamic)) for c in op.cases()[:: 1 if dynamic else STATIC_STRIDE])
    wrong = [(case, line) for case, run in runs for line in differences(run, run_natively(run))]
    assert not wrong
