"""Plug-ins with kernels as text: LLVM IR, and C if a compiler is installed; code for GPUs is rejected."""

import re
import shutil
from typing import Tuple, Union  # noqa: UP035

import numpy as np
import numpy.typing as npt
import pytest

import anyrt as trt
import anyrt.plugin as trtp
from tests.messages import diagnostic

T, D = trtp.Tensor, trtp.TensorDesc
Code = Union[str, bytes]  # noqa: UP007
Answer = Tuple[Code, Code, trtp.KernelLaunchParams, trtp.SymExprs]  # noqa: UP006
PREFER_AOT = 1 << int(trt.NetworkDefinitionCreationFlag.PREFER_AOT_PYTHON_PLUGINS)
PREFER_JIT = 1 << int(trt.NetworkDefinitionCreationFlag.PREFER_JIT_PYTHON_PLUGINS)
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

ADD_C = """
extern "C" __global__ void add_kernel(const float* x, int n, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}
"""
ONCE_C = "void add_kernel(const float *x, int n, float *y) { for (int i = 0; i < n; i++) y[i] = x[i] + 1; }"
ADD_IR = """
define void @add_kernel(ptr %x, i32 %n, ptr %y{place}) {{
  %first = mul i32 {block}, {size}
  %i = add i32 %first, {thread}
  %in = icmp slt i32 %i, %n
  br i1 %in, label %then, label %end
then:
  %p = getelementptr float, ptr %x, i32 %i
  %v = load float, ptr %p
  %s = fadd float %v, 1.0
  %q = getelementptr float, ptr %y, i32 %i
  store float %s, ptr %q
  br label %end
end:
  ret void
}}
"""
THREADS_IR = ADD_IR.format(
    place=", i32 %b, i32 %by, i32 %bz, i32 %t, i32 %ty, i32 %tz", block="%b", size=16, thread="%t"
)
BLOCKS_IR = ADD_IR.format(place=", i32 %b, i32 %by, i32 %bz", block="%b", size=1, thread=0)


@trtp.register("kernels::add", lazy_register=True)
def add_desc(x: D, text: str, block: int) -> D:
    return x.like()


@trtp.aot_impl("kernels::add")
def add_aot(x: D, text: str, block: int, outputs: Tuple[D], tactic: int) -> Answer:  # noqa: UP006
    launch, n = trtp.KernelLaunchParams(), x.shape_expr.numel()
    launch.grid_x, launch.block_x = trtp.cdiv(n, block), block
    extra = trtp.SymIntExprs(1)
    extra[0] = trtp.SymInt32(n)
    return "add_kernel", text, launch, extra


@needs_cc
@pytest.mark.parametrize("text", [ADD_C, ONCE_C], ids=["threads", "once"])
def test_a_kernel_in_c_computes_every_size(build, rng, text):
    engine = build(lambda x: trtp.op.kernels.add(x, text=text, block=16), x=(-1, 5))
    for n in (1, 7, 64):
        x = rng.standard_normal((n, 5), np.float32)
        assert np.array_equal(engine.run(x=x)["y0"], x + 1)


@pytest.mark.parametrize(("text", "block"), [(THREADS_IR, 16), (BLOCKS_IR, 1)], ids=["threads", "blocks"])
def test_a_kernel_in_llvm_ir_computes_every_size(build, rng, text, block):
    engine = build(lambda x: trtp.op.kernels.add(x, text=text, block=block), x=(-1, 5))
    for n in (1, 7, 64):
        x = rng.standard_normal((n, 5), np.float32)
        assert np.array_equal(engine.run(x=x)["y0"], x + 1)


CIRC_PAD = """
__global__ void circ_pad(const {type}* X, int p2, int p3, int h, int w, int H, int W, int n, {type}* Y) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int row = i / W % H, column = i % W, plane = i / W / H;
    Y[i] = X[(plane * h + (row - p2 + h) % h) * w + (column - p3 + w) % w];
}}
"""


@trtp.register("kernels::circ_pad", lazy_register=True)
def circ_pad_desc(inp0: D, pads: npt.NDArray[np.int32]) -> D:
    out_desc = inp0.like()
    for i in range(np.size(pads) // 2):
        out_desc.shape_expr[inp0.ndim - i - 1] += int(pads[i * 2] + pads[i * 2 + 1])
    return out_desc


@trtp.autotune("kernels::circ_pad")
def circ_pad_autotune(inp0, outputs):
    return [trtp.AutoTuneCombination("INT32|INT64, INT32|INT64", tactics=[3, 4])]


@trtp.aot_impl("kernels::circ_pad")
def circ_pad_aot(inp0: D, pads: npt.NDArray[np.int32], outputs: Tuple[D], tactic: int) -> Answer:  # noqa: UP006
    assert tactic in (3, 4)
    text = CIRC_PAD.format(type="int" if inp0.dtype == trt.int32 else "long")
    (_, _, h, w), (_, _, H, W) = inp0.shape_expr, outputs[0].shape_expr
    numbers = [int(pads[2]), int(pads[0]), h, w, H, W, outputs[0].shape_expr.numel()]
    extra = trtp.SymIntExprs.from_tuple([trtp.SymInt32(e) for e in numbers])
    launch = trtp.KernelLaunchParams(trtp.cdiv(outputs[0].shape_expr.numel(), 64), block_x=64)
    return b"circ_pad", text.encode(), launch, extra


@needs_cc
@pytest.mark.parametrize(("dtype", "kind"), [(trt.int32, np.int32), (trt.int64, np.int64)])
def test_the_kernel_of_a_sample_pads_each_type(build, rng, dtype, kind):
    pads = np.array([1, 2, 0, 3], np.int32)
    engine = build(lambda x: trtp.op.kernels.circ_pad(x, pads=pads), dtype, strong=True, x=(-1, 2, 6, 5))
    x = rng.integers(-9, 9, (3, 2, 6, 5)).astype(kind)
    assert np.array_equal(engine.run(x=x)["y0"], np.pad(x, [(0, 0), (0, 0), (0, 3), (1, 2)], "wrap"))


PTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry add_kernel() { ret; }"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PTX, "PTX"),
        (PTX.encode(), "PTX"),
        (b"\x7fELF\x02\x01\x01\x33", "cubin"),
        (
            'target triple = "nvptx64-nvidia-cuda"\ndefine void @add_kernel() { ret void }',
            "raw_aot .*LLVM IR",
        ),
        ("define void @add_kernel(ptr %x) { ret void }", r"add_kernel\(ptr\).*\(ptr, int, ptr\)"),
        ("define void @other() { ret void }", "kernels::raw: add_kernel: .* add_kernel,"),
        ("define void @add_kernel(ptr %x, i32 %n, ptr %y) { ret i32 }", r"\[AR822\]"),
        (
            "declare void @f()\ndefine void @add_kernel(ptr %x, i32 %n, ptr %y) { call void @f() ret void }",
            r"\[AR822\]",
        ),
        pytest.param("void add_kernel(float *x) {}", "error: too many arguments", marks=needs_cc),
        pytest.param("void add_kernel(", "kernels::raw: add_kernel", marks=needs_cc),
        pytest.param(
            "void add_kernel(float *x, int n, float *y) { *y = expf(*x); }",
            "implicit declaration",
            marks=needs_cc,
        ),
        pytest.param("void add_kernel(float*, int, float*);", "undefined symbol", marks=needs_cc),
        ("void add_kernel(int *x, int n, int *y) { __syncthreads(); }", "__syncthreads"),
        pytest.param("", "implicit declaration", marks=needs_cc),
    ],
)
def test_kernels_that_cannot_be_compiled_are_rejected(build, log, text, message):
    results["text"] = text
    assert build(lambda x: trtp.op.kernels.raw(x), x=(4,)) is None
    assert re.search(message, log.lines[-1])
    assert "kernels::raw: " in log.lines[-1]


results = {"text": "", "launch": trtp.KernelLaunchParams(), "extra": trtp.SymIntExprs.from_tuple([1])}


@trtp.register("kernels::raw", lazy_register=True)
def raw_desc(x: D) -> D:
    return x.like()


@trtp.aot_impl("kernels::raw")
def raw_aot(x: D, outputs: Tuple[D], tactic: int) -> Answer:  # noqa: UP006
    return "add_kernel", results["text"], results["launch"], results["extra"]


@pytest.mark.parametrize(
    ("part", "value", "values"),
    [
        ("text", 3, ("int", "raw_aot", "str")),
        ("launch", (1, 1, 1), ("tuple", "raw_aot", "KernelLaunchParams")),
        ("extra", [1], ("list", "raw_aot", "SymIntExprs")),
        ("extra", trtp.SymIntExprs(2), ("raw_aot",)),
    ],
)
def test_results_of_a_wrong_type_are_reported(build, log, monkeypatch, part, value, values):
    monkeypatch.setitem(results, "text", ONCE_C)
    monkeypatch.setitem(results, part, value)
    assert build(lambda x: trtp.op.kernels.raw(x), x=(4,)) is None
    assert re.search(diagnostic("AR822", "kernels::raw:", *values), log.lines[-1])


@trtp.register("kernels::both", lazy_register=True)
def both_desc(x: D) -> D:
    return x.like()


@trtp.impl("kernels::both")
def both_impl(x: T, outputs: Tuple[T], stream: int) -> None:  # noqa: UP006
    np.asarray(outputs[0])[:] = 1


@trtp.aot_impl("kernels::both")
def both_aot(x: D, outputs: Tuple[D], tactic: int) -> Answer:  # noqa: UP006
    text = "define void @two(ptr %x, ptr %y) { store float 2.0, ptr %y ret void }"
    return "two", text, trtp.KernelLaunchParams(), trtp.SymIntExprs(0)


@pytest.mark.parametrize(
    ("flags", "aot", "value"),
    [(0, True, 2), (0, False, 1), (PREFER_AOT, None, 2), (PREFER_JIT, None, 1), (PREFER_AOT, False, 1)],
)
def test_a_flag_or_an_argument_selects_the_function(build, flags, aot, value):
    engine = build(lambda x: trtp.op.kernels.both(x), flags=flags, aot=aot, x=(1,))
    assert engine.run(x=np.zeros(1, np.float32))["y0"] == value


def test_impl_and_aot_impl_together_need_a_selection(build):
    with pytest.raises(ValueError, match=diagnostic("AR306", "kernels::both", "impl", "aot_impl")):
        build(lambda x: trtp.op.kernels.both(x), x=(1,))


def test_aot_false_requires_an_impl_function(build):
    with pytest.raises(
        ValueError, match=diagnostic("AR306", "kernels::raw", "impl", "@impl('kernels::raw')")
    ):
        build(lambda x: trtp.op.kernels.raw(x), aot=False, x=(1,))


@trtp.register("kernels::recorded", lazy_register=True)
def recorded_desc(x: D) -> D:
    return x.like()


@trtp.aot_impl("kernels::recorded")
def recorded_aot(x: D, outputs: Tuple[D], tactic: int) -> Answer:  # noqa: UP006
    RECORDED.append((tuple(x.shape), x.format, x.dtype, tuple(outputs[0].shape), x.shape_expr[0].is_constant))
    text = "define void @none(ptr %x, ptr %y) { ret void }"
    return "none", text, trtp.KernelLaunchParams(), trtp.SymIntExprs(0)


RECORDED = []


def test_aot_impl_receives_formats_and_then_numbers(build):
    engine = build(lambda x: trtp.op.kernels.recorded(x), x=(-1, 3))
    linear, kind = trt.TensorFormat.LINEAR, trt.float32
    assert [((-1, 3), linear, kind, (-1, 3), False)] == RECORDED
    for n in (2, 2, 5):
        engine.run(x=np.zeros((n, 3), np.float32))
    assert RECORDED[1:] == [((n, 3), linear, kind, (n, 3), True) for n in (2, 5)]
