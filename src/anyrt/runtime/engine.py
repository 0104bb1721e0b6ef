"""A loaded plan: creates contexts, and runs arrays directly.

engine = load(read_plan(data), CpuDevice(), pool, obtain)
y = engine.infer({"x": x})["y"]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from anyrt.core.errors import ResourceError
from anyrt.plan import abi
from anyrt.plan.device import Code, Device
from anyrt.plan.file import PlanFile
from anyrt.plan.program import Compiled, Program
from anyrt.runtime.arrays import Array
from anyrt.runtime.constants import Held
from anyrt.runtime.context import Context
from anyrt.runtime.direct import DirectCall
from anyrt.runtime.external import Host
from anyrt.runtime.loaded import Loaded, guarded
from anyrt.runtime.memory import Policy
from anyrt.runtime.pauses import late_outputs, open_outputs
from anyrt.runtime.pool import Pool
from anyrt.runtime.shapes import Resolver


class Engine:
    """Runs one network; any number of threads may use it at once."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self._local = threading.local()

    def create_context(
        self, policy: Policy = Policy.STATIC, profile: int = 0, limit: int | None = None
    ) -> Context:
        """A context; `limit` bounds its workspace in bytes."""
        return Context(self.loaded, policy, profile, limit)

    def infer(self, arrays: Mapping[str, Array], ranks: object = None) -> dict[str, Array]:
        """New arrays with the outputs for `arrays`, computed in a context that the calling thread keeps.
        `ranks`: the communicator of exchanges."""
        try:
            call: DirectCall = self._local.call
        except AttributeError:
            call = self._local.call = DirectCall(self.create_context(Policy.ON_DEMAND))
        try:
            return call(arrays, ranks)
        except MemoryError as error:  # of NumPy, for outputs and for copies of inputs
            raise ResourceError("AR802", "inference", str(error), "memory for the outputs") from None


def load(
    file: PlanFile,
    device: Device,
    pool: Pool,
    obtain: Callable[[PlanFile], Compiled],
    host: Host | None = None,
) -> Engine:
    """An engine from a plan; `obtain` returns its code, from a cache or by compiling it now, `host` calls
    plug-ins and communicators."""
    plan, compiled = file.plan, obtain(file)
    outside = compiled.program.outside
    assert host is not None or not outside, f"{plan.name} has plug-ins or exchanges, which nobody calls"
    code = device.load(compiled)
    held = Held(file, compiled.program, device)
    position = {b.name: i for i, b in enumerate(plan.bindings)}
    loaded = Loaded(
        plan=plan,
        program=compiled.program,
        code=code,
        device=device,
        pool=pool,
        resolver=Resolver(plan, compiled.program),
        position=position,
        value_inputs=tuple(
            sorted({position[s.tensor] for s in plan.symbols if s.is_value and s.most is None})
        ),
        counts={s.name: position[s.tensor] for s in plan.symbols if s.most is not None},
        open_outputs=open_outputs(plan, position),
        late=late_outputs(plan),
        sources=plan.sources,
        lenders=plan.lenders,
        callers=host(file, compiled.program) if host is not None and outside else None,
        held=held,
        checksums=file.checksums,
        prepare=guarded(code.function(abi.PREPARE, 1), held.is_intact),
        run=guarded(code.function(abi.RUN, 1), held.is_intact),
        step=guarded(code.function(abi.STEP, 2), held.is_intact),
        resume=guarded(code.function(abi.RESUME, 2), held.is_intact),
        again=_again(code, compiled.program),
    )
    pool.ensure()
    return Engine(loaded)


def _again(code: Code, program: Program) -> Callable[[int, int], int]:
    """Whether a loop step executes another iteration; code of programs without loops need not have it."""
    return code.function(abi.AGAIN, 2) if program.loops else lambda address, step: 0
