"""Kernels of blocks and threads as PTX: code generation with the instruction forms of another target.

LLVM emits PTX itself, so neither a GPU nor CUDA's tools are needed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anyrt.codegen import bfloat
from anyrt.codegen.arithmetic import intrinsic
from anyrt.codegen.emit import NAME, Emitter
from anyrt.codegen.llvm import assembly
from anyrt.codegen.scope import Scope
from anyrt.codegen.values import Values
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Buffer, Scalar
from anyrt.ir.kernel import Barrier, Expr, For, Kernel, Loop, Op, Stmt
from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.kernelrules import kernel_faults
from anyrt.ir.run import run
from anyrt.ir.statements import buffers_in_order, changes_of

REGISTERS = {Loop.PARALLEL: "ctaid.y", Loop.BLOCK: "ctaid.x", Loop.THREAD: "tid.x"}


@dataclass(frozen=True)
class Sm90:
    """The processor that LLVM compiles for."""

    triple: str = "nvptx64-nvidia-cuda"
    cpu: str = "sm_90"
    features: str = "+ptx83"


@dataclass(frozen=True)
class GpuInstructions:
    """LLVM's instructions, as far as these kernels need them."""

    has_fma: bool = True

    def replacement(self, x: Expr) -> Expr | None:
        return None

    def dot(self, op, lanes):
        return None

    def extreme(
        self, w: Writer, scope: Scope, op: Op, pair: Sequence[str], width: int, *, sure: bool = False
    ) -> str:
        return intrinsic(w, scope, op, pair, Scalar.F32, width)

    def narrowed(self, w: Writer, scope: Scope, text: str, width: int) -> str:
        return bfloat.narrowed(w, scope, text, width)


class GridLowering:
    """The frame is the kernel's parameter. The extents of grid and blocks are those of their loops; each
    thread executes the iteration whose number it finds in a register."""

    def head(self, name: str, words: int) -> str:
        return f"define ptx_kernel void @{name}(ptr byval([{words} x i64]) align 8 %frame) {{"

    def local(self, to: Emitter, buffer: Buffer) -> str:
        out = to.values.out
        out.declared.add("@shared = external addrspace(3) global [0 x i8], align 16")
        start = "addrspacecast (ptr addrspace(3) @shared to ptr)"
        return out.put(out.scopes.inner, f"getelementptr i8, ptr {start}, i64 {to.values.dim(buffer.offset)}")

    def readable(self, to: Emitter, buffer: Buffer, start: str) -> str:
        return start  # the caller provides memory for empty tensors

    def write(self, to: Emitter, stmt: Stmt) -> bool:
        out = to.values.out
        outer = out.scopes.inner
        match stmt:
            case For(var=var, kind=Loop.PARALLEL | Loop.BLOCK | Loop.THREAD as kind, body=body):
                number = out.call(outer, "i32", f"llvm.nvvm.read.ptx.sreg.{REGISTERS[kind]}", [])
                turn = out.put(outer, f"zext i32 {number} to i64")
                inner = out.scopes.open(Scope(syms={var: turn}, changes=changes_of(body)))
                to.block(body)
                out.scopes.stack.pop()
                outer.lines += inner.lines
            case Barrier():
                out.declared.add("declare void @llvm.nvvm.barrier0()")
                outer.lines.append("  call void @llvm.nvvm.barrier0()")
            case _:
                return False
        return True


def read(text: str) -> Kernel:
    (kernel,) = parse_kernels(text)
    assert list(kernel_faults(kernel)) == []
    return kernel


def ptx(kernel: Kernel) -> str:
    emitter = Emitter(Values(Writer(GpuInstructions()), {}), GridLowering())
    return assembly(emitter.function(kernel, NAME).module, Sm90())


# One thread per element; the last block has fewer.
MAP = """
symbol n 0..1048576
buffer x f32 input n offset 0
buffer y f32 output n offset 0
kernel "scaled" p 0.. < 1 work 1 scratch 0 {
  for block b 0.. < floordiv(255 + n, 256) {
    for thread t 0.. < 256 {
      if lt(index(256*b + t), index(n)) {
        store y[256*b + t] = fma(x[256*b + t], 3.0:f32, 1.0:f32)
      }
    }
  }
}
"""


def test_a_map_is_a_thread_for_each_element():
    kernel, x, y = read(MAP), np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    run(kernel, dict(zip(buffers_in_order(kernel), (x, y), strict=True)), {"n": 300})
    assert np.array_equal(y, 3 * x + 1)
    text = ptx(kernel)
    for expected in (".entry kernel(", "%ctaid.x", "%tid.x", "ld.global", "fma.rn.f32", "st.global"):
        assert expected in text
    for unwanted in (".local", ".shared", "bar.sync"):
        assert unwanted not in text


# One block per row: each thread sums every 256th element, then half of the threads add two partial sums each,
# and so on.
HALVES = "".join(
    f"      if lt(index(t), {n}:i64) {{\n"
    f"        store part[t] = add(part[t], part[{n} + t])\n"
    "      }\n"
    "      barrier\n"
    for n in (128, 64, 32, 16, 8, 4, 2, 1)
)
REDUCTION = f"""
symbol n 0..1024
buffer acc f32 register 1 offset 0
buffer part f32 shared 256 offset 0
buffer x f32 input 1024*n offset 0
buffer y f32 output n offset 0
kernel "summed" p 0.. < 1 work 1 scratch 0 shared 1024 {{
  for block r 0.. < n {{
    for thread t 0.. < 256 {{
      alloc acc = -0.0:f32
      for serial k 0.. < 4 {{
        fold acc add x[256*k + 1024*r + t]
      }}
      store part[t] = acc[0]
      barrier
{HALVES}
      if lt(index(t), 1:i64) {{
        store y[r] = part[0]
      }}
    }}
  }}
}}
"""


def test_a_reduction_meets_in_shared_memory():
    kernel, x, y = read(REDUCTION), np.arange(3072, dtype=np.float32) % 7, np.zeros(3, np.float32)
    results = {b.name: b for b in buffers_in_order(kernel)}
    run(kernel, {results["x"]: x, results["y"]: y}, {"n": 3})
    assert np.array_equal(y, x.reshape(3, 1024).sum(1))
    text = ptx(kernel)
    assert ".extern .shared .align 16 .b8 shared[]" in text
    assert (text.count("ld.global"), text.count("st.global"), text.count("bar.sync")) == (4, 1, 9)
    assert (text.count("ld.shared"), text.count("st.shared")) == (2 * 8 + 1, 1 + 8)
    assert "%tid.x" in text
    assert ".local" not in text
