"""The loader, the interpreter and the counter as backends."""

import re
from pathlib import Path

import numpy as np
import pytest

from anyrt import compiler
from anyrt.backends.cpu.device import CpuDevice
from anyrt.backends.loader import all_backends
from anyrt.backends.null.target import Traffic, count
from anyrt.codegen.target import Job
from anyrt.compiler.trial import job as job_of
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import NotSupportedError
from anyrt.ir.graph import Graph, Symbol, Value
from anyrt.prims.build import cast, map_, param, reduce_
from anyrt.schedule.cost import Sizes
from tests.messages import diagnostic
from tests.native import lower

N = Sym("n", 1, 1024)


def job(value: Value, sizes: dict[str, int]) -> Job:
    """The schedule of `value`, computed from the input x; n is its first dimension."""
    x = param("x", (N.dim, 64), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", value),), symbols=(Symbol(N, "x", 0),))
    return job_of(lower(graph, {}, Sizes(sizes)), sizes)


def test_what_a_backend_has_is_what_its_folder_holds():
    parts = {b.name: (b.has("target"), b.has("device")) for b in all_backends().values()}
    assert parts == {"cpu": (True, True), "interp": (True, False), "null": (True, False)}
    assert isinstance(all_backends()["cpu"].device(), CpuDevice)


def test_the_compiler_asks_no_loader_for_what_it_is_handed():
    texts = {p.name: p.read_text() for p in Path(compiler.__file__).parent.glob("*.py")}
    asks = re.compile(r"^\s*(from|import) anyrt\.backends", re.M)
    assert not {name for name, text in texts.items() if asks.search(text)}


def test_a_missing_side_is_an_error():
    with pytest.raises(NotSupportedError, match=diagnostic("AR901", "backend null")):
        all_backends()["null"].device()


def test_interp_runs_the_kernels():
    x = param("x", (N.dim, 64), DataType.FLOAT)
    feeds = {"x": np.arange(128, dtype=np.float32).reshape(2, 64)}
    answer = all_backends()["interp"].target().run(job(map_("neg", x), {"n": 2}), feeds)
    assert np.array_equal(answer.outputs["y"], -feeds["x"])


@pytest.mark.parametrize("n", [1, 17, 1024])
def test_null_counts_each_tensor_of_a_kernel_once(n):
    x = param("x", (N.dim, 64), DataType.FLOAT)
    chain = cast(map_("exp", map_("neg", x)), DataType.HALF)
    built = job(chain, {"n": n})
    assert count(built.kernels, built.sizes) == Traffic(1, n * 64 * (4 + 2))


def test_null_counts_4_bit_elements_as_half_bytes():
    x = param("x", (N.dim, 64), DataType.FLOAT)
    built = job(cast(x, DataType.INT4), {"n": 3})
    assert count(built.kernels, built.sizes) == Traffic(1, 3 * 64 * 4 + 3 * 32)


def test_null_runs_without_computing():
    x = param("x", (N.dim, 64), DataType.FLOAT)
    answer = all_backends()["null"].target().run(job(reduce_("sum", x, (1,)), {"n": 5}), {})
    assert (answer.outputs, answer.notes) == ({}, f"kernels: 1, bytes moved: {5 * 65 * 4}")


def test_cpu_says_how_much_code_kernels_need():
    x = param("x", (N.dim, 64), DataType.FLOAT)
    answer = all_backends()["cpu"].target().run(job(map_("neg", x), {"n": 2}), {})
    assert re.fullmatch(r"kernels: 1, bytes of code: [1-9]\d*", answer.notes)
