"""Inference with hand-written native code."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import AnyrtError, BindingError, ProfileError, ResourceError, ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.plan.cache import KernelCache
from anyrt.plan.file import map_plan, read_plan, write_plan
from anyrt.plan.plan import Binding, Plan, Range, SymbolRecord
from anyrt.plan.program import Compiled, Program
from anyrt.runtime.engine import load
from anyrt.runtime.memory import Policy
from tests.messages import diagnostic


def ramp(rows):
    return np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)


def code_of(call):
    with pytest.raises(AnyrtError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize("rows", [0, 1, 2, 17, 1000, 60_000])
def test_infer_adds_one_at_every_size(engine, rows):
    out = engine.infer({"x": ramp(rows)})
    assert list(out) == ["y"]
    assert np.array_equal(out["y"], ramp(rows) + 1)


def test_infer_gives_new_arrays_each_time(engine):
    first = engine.infer({"x": ramp(2)})["y"]
    engine.infer({"x": ramp(2) * 5})
    assert np.array_equal(first, ramp(2) + 1)


def test_infer_takes_strided_arrays_and_lists(engine):
    assert np.array_equal(engine.infer({"x": ramp(8)[::2]})["y"], ramp(8)[::2] + 1)
    assert np.array_equal(engine.infer({"x": [[1, 2, 3]]})["y"], [[2, 3, 4]])


def test_infer_rejects_other_types_and_names(engine):
    assert code_of(lambda: engine.infer({"x": ramp(2).astype(np.float64)})) == "AR703"
    assert code_of(lambda: engine.infer({"z": ramp(2)})) == "AR701"
    assert code_of(lambda: engine.infer({"x": [[1], [2, 3]]})) == "AR703"
    assert code_of(lambda: engine.infer({"x": ramp(2), "z": ramp(2)})) == "AR706"
    assert code_of(lambda: engine.infer({"x": ramp(2)[:, :2]})) == "AR123"
    assert np.array_equal(engine.infer({"x": ramp(2)})["y"], ramp(2) + 1)


def test_a_context_runs_with_addresses(engine):
    context, x, y = engine.create_context(), ramp(4), np.zeros((4, 3), np.float32)
    context.set_shape("x", (4, 3))
    context.set_address("x", x.ctypes.data)
    context.set_address("y", y.ctypes.data)
    context.run()
    assert np.array_equal(y, x + 1)
    x *= 2
    context.run()
    assert np.array_equal(y, x + 1)


def test_a_context_follows_changes_of_shape_and_address(engine):
    context = engine.create_context()
    for rows in (4, 900, 4, 0, 33):
        x, y = ramp(rows), np.zeros((rows, 3), np.float32)
        context.set_shape("x", (rows, 3))
        context.set_address("x", x)
        context.set_address("y", y)
        context.run()
        assert np.array_equal(y, x + 1)


def test_an_output_must_not_lie_where_an_input_does(engine):
    context, memory = engine.create_context(), np.zeros(24, np.float32)
    context.set_shape("x", (4, 3))
    context.set_address("x", memory[:12])
    for at in (0, 11, 3):
        context.set_address("y", memory[at : at + 12])
        assert code_of(context.run) == "AR711"
        context.set_address("y", memory[12:])
        context.run()
    context.set_address("x", memory[10:22])
    assert code_of(context.run) == "AR711"
    context.set_address("x", memory[:12])
    context.run()
    assert memory.tolist() == [0] * 12 + [1] * 12


def test_a_bound_array_gives_its_shape_and_stays_alive(engine):
    context, y = engine.create_context(), np.zeros((5, 3), np.float32)
    context.set_address("x", ramp(5))
    context.set_address("y", y)
    assert context.sizing.of("y") == (5, 3)
    context.run()
    assert np.array_equal(y, ramp(5) + 1)


def test_a_flat_buffer_may_be_larger_than_the_tensor(engine):
    context, y = engine.create_context(), np.zeros(100, np.float32)
    context.set_address("x", ramp(5))
    context.set_address("y", y)
    context.run()
    assert np.array_equal(y[:15], (ramp(5) + 1).ravel())
    assert y[15:].sum() == 0


def test_shapes_are_unknown_until_they_are_set(engine):
    context = engine.create_context()
    assert (context.sizing.of("x"), context.sizing.of("y")) == ((-1, 3), (-1, 3))
    assert context.sizing.missing() == ["x"]
    context.set_shape("x", (7, 3))
    assert (context.sizing.of("y"), context.sizing.missing()) == ((7, 3), [])


def test_each_mistake_of_a_run_has_its_code(engine):
    context = engine.create_context()
    assert code_of(context.run) == "AR707"
    context.set_shape("x", (4, 3))
    assert code_of(context.run) == "AR701"
    context.set_address("x", 0)
    assert code_of(context.run) == "AR702"
    context.set_address("x", ramp(4))
    assert code_of(context.run) == "AR701"
    context.set_address("y", np.zeros((3, 3), np.float32))
    assert code_of(context.run) == "AR704"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (np.zeros((4, 3)), "AR703"),
        (np.zeros((3, 4), np.float32).T, "AR705"),
        (np.frombuffer(bytes(48), np.float32), "AR705"),
        (np.frombuffer(bytearray(50), np.uint8)[1:49].view(np.float32), "AR705"),
        ("text", "AR703"),
        (-1, "AR705"),
        (1 << 64, "AR705"),
    ],
)
def test_memory_that_does_not_fit_is_rejected(engine, value, code):
    assert code_of(lambda: engine.create_context().set_address("y", value)) == code


def test_shapes_outside_the_profile_are_rejected(engine):
    context = engine.create_context()
    assert code_of(lambda: context.set_shape("x", (1001, 3))) == "AR505"
    assert code_of(lambda: context.set_shape("x", (4, 4))) == "AR123"
    assert code_of(lambda: context.set_shape("x", (4, 3, 1))) == "AR122"
    assert code_of(lambda: context.set_shape("y", (4, 3))) == "AR706"
    assert code_of(lambda: context.set_shape("q", (4, 3))) == "AR706"


def test_another_profile_allows_other_shapes(engine):
    context = engine.create_context()
    context.set_shape("x", (4, 3))
    context.set_profile(1)
    assert context.sizing.missing() == ["x"]
    context.set_shape("x", (60_000, 3))
    assert code_of(lambda: context.set_profile(2)) == "AR507"


def test_zero_elements_need_no_address(engine):
    context = engine.create_context()
    context.set_shape("x", (0, 3))
    context.set_address("x", 0)
    context.run()
    assert context.sizing.of("y") == (0, 3)


def test_workspace_sizes_follow_profiles_and_shapes(engine):
    context = engine.create_context()
    context.set_shape("x", (16, 3))
    assert context.workspace_bytes() == 192 + 2 * 64
    assert engine.loaded.workspace_bytes(0) == 12_032 + 2 * 64
    assert engine.loaded.workspace_bytes() == 1_200_000 + 2 * 64


def test_a_workspace_over_the_limit_is_rejected(engine):
    context = engine.create_context(Policy.ON_DEMAND, limit=1000)
    context.set_address("x", ramp(16))
    context.set_address("y", np.zeros((16, 3), np.float32))
    context.run()
    context.set_shape("x", (500, 3))
    assert code_of(context.run) == "AR801"
    assert code_of(lambda: engine.create_context(limit=1000)) == "AR801"


def test_the_user_may_manage_the_workspace(engine, device):
    context, memory = engine.create_context(Policy.USER_MANAGED), device.allocate(12_160)
    context.set_address("x", ramp(16))
    y = np.zeros((16, 3), np.float32)
    context.set_address("y", y)
    assert code_of(context.run) == "AR801"
    context.set_workspace(memory.address, memory.nbytes)
    context.run()
    assert np.array_equal(y, ramp(16) + 1)
    assert code_of(lambda: context.set_workspace(memory.address + 4, 100)) == "AR705"


class Allocator:
    """Returns one array, and records its arguments."""

    def __init__(self, elements):
        self.memory, self.calls = np.zeros(elements, np.float32), []

    def reallocate(self, name, current, nbytes, alignment):
        self.calls.append((name, nbytes))
        return self.memory.ctypes.data if self.memory.nbytes >= nbytes else None

    def notify(self, name, shape):
        self.calls.append((name, shape))


def test_an_output_allocator_is_called_in_each_inference(engine):
    context, allocator = engine.create_context(), Allocator(30)
    context.set_address("x", ramp(10))
    context.set_allocator("y", allocator)
    context.run()
    context.run()
    assert allocator.calls == [("y", 120), ("y", (10, 3))] * 2
    assert np.array_equal(allocator.memory, (ramp(10) + 1).ravel())


def test_an_output_allocator_may_reject(engine):
    context = engine.create_context()
    context.set_address("x", ramp(10))
    context.set_allocator("y", Allocator(1))
    assert code_of(context.run) == "AR709"


def test_steps_report_every_kernel(engine):
    context, y, seen = engine.create_context(), np.zeros((9, 3), np.float32), []
    context.set_address("x", ramp(9))
    context.set_address("y", y)
    context.run_steps(lambda name, milliseconds: seen.append((name, milliseconds >= 0)))
    assert seen == [("copy", True), ("add", True)]
    assert np.array_equal(y, ramp(9) + 1)


def test_a_second_thread_finds_the_context_busy(engine):
    context, held = engine.create_context(), threading.Event()
    codes = []

    class Slow(Allocator):
        def reallocate(self, name, current, nbytes, alignment):
            thread = threading.Thread(target=lambda: codes.append(code_of(context.run)))
            thread.start()
            thread.join()
            codes.append(code_of(lambda: context.set_shape("x", (2, 3))))
            held.set()
            return super().reallocate(name, current, nbytes, alignment)

    context.set_address("x", ramp(4))
    context.set_allocator("y", Slow(12))
    context.run()
    assert codes == ["AR708", "AR708"]


def test_many_threads_use_one_engine(engine):
    wrong = []

    def work(seed):
        for i in range(200):
            x = ramp(1 + (seed * 7 + i * 13) % 400) + seed
            if not np.array_equal(engine.infer({"x": x})["y"], x + 1):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # threads exist: that is the point
def test_a_forked_child_goes_on(engine):
    context, y = engine.create_context(), np.zeros((1000, 3), np.float32)
    context.set_address("x", ramp(1000))
    context.set_address("y", y)
    context.run()
    child = os.fork()
    if child == 0:
        y[:] = 0
        context.run()
        fine = np.array_equal(y, ramp(1000) + 1) and bool(engine.infer({"x": ramp(3)}))
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    context.run()


def test_a_mapped_plan_runs_without_copies(tmp_path, plan, device, pool, add_one):
    file = read_plan(plan)
    (tmp_path / "net.plan").write_bytes(write_plan(file.plan, [file.weights]))
    mapped = map_plan(tmp_path / "net.plan")
    engine = load(mapped, device, pool, lambda _: add_one)
    assert engine.loaded.held.now.address == np.frombuffer(mapped.weights, np.uint8).ctypes.data
    assert np.array_equal(engine.infer({"x": ramp(2)})["y"], ramp(2) + 1)


def shape_tensor_engine(device, pool, add_one, relation=Relation.LE):
    """The elements of the shape tensor s determine n: y has s[1] rows, and s[0] <= 5 must hold."""
    n, m = Sym("s#1", 0, 1000), Sym("s#0", 0, 1000)
    plan = Plan(
        name="values",
        graph_text="",
        bindings=(
            Binding("x", True, DataType.FLOAT, (100, 3)),
            Binding("s", True, DataType.INT64, (2,), is_shape=True, is_host=True),
            Binding("y", False, DataType.FLOAT, (n.dim, 3)),
        ),
        symbols=(
            SymbolRecord("s#0", "s", 0, True, 0, 1000),
            SymbolRecord("s#1", "s", 1, True, 0, 1000),
        ),
        requirements=(Requirement(m.dim, relation, 5, "AR303", "layer q", "use a smaller axis"),),
        profiles=((Range("s", True, (0, 1), (1, 2), (9, 90)),),),
    )
    program = Program((), 0, 0, 8, 4, (), (*add_one.program.entries,))
    return load(read_plan(write_plan(plan, [])), device, pool, lambda _: Compiled(program, add_one.image))


def test_values_of_shape_tensors_decide_sizes(device, pool, add_one):
    context = shape_tensor_engine(device, pool, add_one).create_context()
    s = np.array([1, 40])
    assert context.sizing.missing() == ["s"]
    context.set_address("s", s)
    assert context.sizing.of("y") == (40, 3)
    s[1] = 7
    assert context.sizing.of("y") == (7, 3)
    s[1] = 91
    assert code_of(lambda: context.sizing.of("y")) == "AR505"
    s[:] = 6, 7
    assert code_of(lambda: context.sizing.of("y")) == "AR303"


def test_errors_are_of_their_class(engine):
    context = engine.create_context()
    with pytest.raises(BindingError, match="AR707"):
        context.run()
    with pytest.raises(ProfileError, match=diagnostic("AR505", "x", (1001, 3), (0, 3), (1000, 3))):
        context.set_shape("x", (1001, 3))
    with pytest.raises(ShapeError):
        context.set_shape("x", (1,))
    with pytest.raises(ResourceError):
        engine.create_context(limit=1)


WARM = """
import sys, numpy as np
from pathlib import Path
sys.modules["llvmlite"] = None  # an import of it fails
from anyrt.backends import loader
from anyrt.plan.cache import KernelCache
from anyrt.plan.file import map_plan
from anyrt.runtime.engine import load
from anyrt.runtime.pool import shared_pool
folder, device = Path(sys.argv[1]), loader.device()
cache = KernelCache(folder / "cache", print)
pool = shared_pool(2, device, lambda: cache.get("pool", {}))
engine = load(map_plan(folder / "p"), device, pool, lambda f: cache.get("net", f.plan.sym_by_name))
print(engine.infer({"x": np.zeros((500, 3), np.float32)})["y"].sum())
print([m for m in sys.modules if m.startswith(("llvmlite.", "anyrt.ir", "anyrt.codegen", "ml_dtypes"))])
"""


def test_a_warm_cache_needs_no_compiler(tmp_path, plan, add_one, pool_code):
    (tmp_path / "p").write_bytes(plan)
    cache = KernelCache(tmp_path / "cache", print)
    cache.put("pool", pool_code)
    cache.put("net", add_one)
    out = subprocess.run([sys.executable, "-c", WARM, tmp_path], capture_output=True, text=True, timeout=60)
    assert out.stdout == "1500.0\n[]\n", out.stderr
