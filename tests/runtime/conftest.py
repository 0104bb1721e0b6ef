"""Hand-written native code: the output of the compiler in its smallest form."""

from collections.abc import Callable

import pytest

from anyrt.backends.cpu.device import CpuDevice
from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.pool import compile_pool
from anyrt.backends.cpu.processors import host
from anyrt.codegen.llvm import compile_text
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.plan.file import read_plan, write_plan
from anyrt.plan.plan import Binding, Plan, Range, SymbolRecord, lay_out
from anyrt.plan.program import Compiled, Program
from anyrt.runtime.engine import Engine, load
from anyrt.runtime.pool import Pool, shared_pool

# y[i] = x[i] + constant[0] by way of the arena: two kernels, chunks of 64 elements. args: 9 x, 10 y, 11 n.
# prepare() writes n + 1000 into the tables; run() returns 2 if it is not there.
ADD_ONE = """
define internal void @copy(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
e:
  %xp = getelementptr i64, ptr %args, i64 9
  %x = load ptr, ptr %xp
  %ap = getelementptr i64, ptr %args, i64 1
  %a = load ptr, ptr %ap
  br label %l
l:
  %i = phi i64 [%begin, %e], [%i1, %l]
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p
  store float %v, ptr %scratch
  %w = load float, ptr %scratch
  %q = getelementptr float, ptr %a, i64 %i
  store float %w, ptr %q
  %i1 = add i64 %i, 1
  %c = icmp slt i64 %i1, %end
  br i1 %c, label %l, label %o
o:
  ret void
}
define internal void @add(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
e:
  %yp = getelementptr i64, ptr %args, i64 10
  %y = load ptr, ptr %yp
  %ap = getelementptr i64, ptr %args, i64 1
  %a = load ptr, ptr %ap
  %cp = getelementptr i64, ptr %args, i64 2
  %cs = load ptr, ptr %cp
  %k = load float, ptr %cs
  br label %l
l:
  %i = phi i64 [%begin, %e], [%i1, %l]
  %p = getelementptr float, ptr %a, i64 %i
  %v = load float, ptr %p
  %s = fadd float %v, %k
  %q = getelementptr float, ptr %y, i64 %i
  store float %s, ptr %q
  %i1 = add i64 %i, 1
  %c = icmp slt i64 %i1, %end
  br i1 %c, label %l, label %o
o:
  ret void
}
define i32 @resume(ptr %args, i64 %k) {
  ret i32 1
}
define i32 @step(ptr %args, i64 %k) {
  %first = icmp eq i64 %k, 0
  %fn = select i1 %first, ptr @copy, ptr @add
  %pool = load ptr, ptr %args
  %par = load ptr, ptr %pool
  %np = getelementptr i64, ptr %args, i64 11
  %n = load i64, ptr %np
  call void %par(ptr %pool, ptr %fn, ptr %args, i64 %n, i64 64)
  ret i32 0
}
define i32 @run(ptr %args) {
  %tp = getelementptr i64, ptr %args, i64 3
  %t = load ptr, ptr %tp
  %seen = load i64, ptr %t
  %np = getelementptr i64, ptr %args, i64 11
  %n = load i64, ptr %np
  %want = add i64 %n, 1000
  %ok = icmp eq i64 %seen, %want
  br i1 %ok, label %go, label %bad
go:
  %r0 = call i32 @step(ptr %args, i64 0)
  %r1 = call i32 @step(ptr %args, i64 1)
  ret i32 0
bad:
  ret i32 2
}
define i32 @prepare(ptr %args) {
  %tp = getelementptr i64, ptr %args, i64 3
  %t = load ptr, ptr %tp
  %np = getelementptr i64, ptr %args, i64 11
  %n = load i64, ptr %np
  %want = add i64 %n, 1000
  store i64 %want, ptr %t
  ret i32 0
}
"""


@pytest.fixture(scope="session")
def device() -> CpuDevice:
    return CpuDevice()


@pytest.fixture(scope="session")
def pool_code() -> Compiled:
    return compile_pool(host())


@pytest.fixture(scope="session")
def build() -> Callable[[str], Compiled]:
    """Compile LLVM text to code with entries only."""

    def compile_entries(text: str) -> Compiled:
        image, entries = flatten(compile_text(text, host()))
        return Compiled(Program((), 0, 0, 0, 0, (), tuple(entries.items())), image)

    return compile_entries


@pytest.fixture(scope="session")
def pool(device: CpuDevice, pool_code: Compiled) -> Pool:
    return shared_pool(2, device, lambda: pool_code)


@pytest.fixture(scope="session")
def add_one(build: Callable[[str], Compiled]) -> Compiled:
    n = Sym("n", 0, 100_000)
    code = build(ADD_ONE)
    return Compiled(
        Program((n.dim * 3,), 0, n.dim * 12, 8, 4, ("copy", "add"), code.program.entries), code.image
    )


@pytest.fixture(scope="session")
def plan() -> bytes:
    """x: (n, 3) float32, y = x + 1; profile 0 has n of 0 to 1000, profile 1 n of 50 000 to 100 000."""
    n = Sym("n", 0, 100_000)
    shape = (n.dim, 3)
    return write_plan(
        Plan(
            name="add one",
            graph_text="y = x + 1",
            blobs=lay_out([("one", DataType.FLOAT, 1)]),
            bindings=(
                Binding("x", True, DataType.FLOAT, shape),
                Binding("y", False, DataType.FLOAT, shape),
            ),
            symbols=(SymbolRecord("n", "x", 0, False, 0, 100_000),),
            profiles=(
                (Range("x", False, (0, 3), (10, 3), (1000, 3)),),
                (Range("x", False, (50_000, 3), (60_000, 3), (100_000, 3)),),
            ),
        ),
        [b"\x00\x00\x80\x3f"],
    )


@pytest.fixture
def engine(plan: bytes, device: CpuDevice, pool: Pool, add_one: Compiled) -> Engine:
    return load(read_plan(plan), device, pool, lambda _: add_one)
