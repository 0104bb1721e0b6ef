"""One inference at a time: shapes and addresses are set once and reused by many inferences.

All inputs of native code are in one array of words, which the setters update, so that a repeated inference is
one native call with one pointer. A context has three parts: its sizes (sizing.py), the memory of its inputs
and outputs (tensors.py), and its own memory (frame.py).
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Iterator

from anyrt.core.enums import TensorFormat
from anyrt.core.errors import AnyrtError, BindingError, CompileError, PlanError, RefitError
from anyrt.plan import abi
from anyrt.plan.abi import Status
from anyrt.plan.plan import Plan
from anyrt.runtime import pauses, reach
from anyrt.runtime.arrays import Bindable, bind
from anyrt.runtime.frame import Frame
from anyrt.runtime.loaded import Loaded
from anyrt.runtime.memory import Policy, adopt, workspace_bytes
from anyrt.runtime.pauses import ComputedSizes
from anyrt.runtime.shapes import Resolved, Shape, value_of
from anyrt.runtime.sizing import Sizing
from anyrt.runtime.tensors import OutputAllocator, Tensors

SHOWN = 5  # names in a message


class Context:
    """Shapes, addresses and memory of one caller; it shares `Loaded` with other contexts. `is_ready`: nothing
    has changed since the last inference."""

    def __init__(self, loaded: Loaded, policy: Policy, profile: int, limit: int | None) -> None:
        loaded.check_profile(profile)
        self.loaded = loaded
        count = len(loaded.plan.bindings)
        words = abi.slot_word(count, len(loaded.program.slots)) + loaded.program.frames
        self.words = array("q", bytes(words * abi.WORD_BYTES))
        self.address = self.words.buffer_info()[0]
        self.caller = None if loaded.callers is None else loaded.callers()
        self.words[abi.EXTERNAL] = 0 if self.caller is None else self.caller.address
        self.words[abi.POOL] = loaded.pool.address
        self._constants = loaded.held.now
        self.words[abi.CONSTS] = self._constants.address
        if abi.CODE in dict(loaded.program.entries):  # an image may contain only functions
            self.words[abi.PROGRAM] = loaded.code.address(abi.CODE)
        self.tensors = Tensors(loaded, self.words)
        self.sizing = Sizing(loaded, self.tensors, profile)
        self._frame = Frame(loaded, self.words, policy, limit)
        self.is_ready = False
        self._late = loaded.late  # outputs whose sizes this inference has not computed yet
        # None: `_run_anew`, which is not stored here, so that a context ends with its last user and releases
        # weights that a budget or a refit has replaced.
        self._run = None if loaded.held.can_change else loaded.run
        self._use_lock()
        loaded.pool.listeners.add(self)
        reach.listen(self)
        if policy in (Policy.STATIC, Policy.ON_PROFILE_CHANGE):
            self._frame.take(loaded.workspace_bytes(None if policy is Policy.STATIC else profile))

    def _use_lock(self) -> None:
        self._lock = threading.Lock()
        self._acquire, self._release = self._lock.acquire, self._lock.release

    def after_fork(self) -> None:
        """Prepare again before the next inference, which starts the threads of the new process."""
        self._use_lock()
        self._frame.prepared, self.is_ready = None, False

    # ---- setters ----------------------------------------------------------------------------------------

    def set_profile(self, profile: int) -> None:
        """Use another profile; the shapes that were set are reset."""
        self.loaded.check_profile(profile)
        self._check_idle()
        self.sizing.enter(profile)
        self.is_ready = False
        if self._frame.policy is Policy.ON_PROFILE_CHANGE:
            self._frame.take(self.loaded.workspace_bytes(profile))

    def set_shape(self, name: str, shape: Shape) -> None:
        """Set the shape of an input."""
        index = self.sizing.input(name)
        if shape == self.sizing.input_shape(index):
            return
        self._check_idle()
        self.sizing.set(index, shape)
        self.is_ready = False

    def set_address(self, name: str, value: Bindable) -> None:
        """Set the memory of an input or output: an address, a NumPy array or a DLPack object, which is kept
        alive.

        An array also sets the shape of a dynamic input if none was set, unless its format is not LINEAR; the
        address 0 resets.
        """
        index = self.loaded.find(name)
        if self._lock.locked():
            self._check_idle()
        binding = self.loaded.plan.bindings[index]
        bound = bind(binding, value)
        if bound.shape is not None and binding.format is TensorFormat.LINEAR and self.sizing.awaits(index):
            self.set_shape(name, bound.shape)
        before, prepared = self.tensors.bind(index, bound), self._frame.prepared
        if self.is_ready and prepared is not None:
            fits = bool(bound.address) and bound.nbytes in (None, prepared.nbytes[index])
            self.is_ready = fits and (bound.address == before or self.tensors.may_move(index, prepared))

    def forget(self, begin: int, end: int) -> None:
        """Check its memory again before the next inference."""
        if self.tensors.forget(begin, end):
            self.is_ready = False

    def set_allocator(self, name: str, allocator: OutputAllocator | None) -> None:
        """Set the allocator of an output, which every inference calls; None removes it."""
        index = self.loaded.find(name)
        if self.loaded.plan.bindings[index].is_input:
            do = "bind the memory of inputs with set_tensor_address"
            raise BindingError("AR706", name, got="an input", wanted="an output", do=do)
        self._check_idle()
        self.is_ready = False
        self.tensors.allocate_by(index, allocator)

    def set_workspace(self, address: int, nbytes: int) -> None:
        """The user's memory for a context with `Policy.USER_MANAGED`."""
        self._check_idle()
        self._frame.use(adopt(address, nbytes))
        self.is_ready = False

    def bound_address(self, name: str) -> int:
        """The address of a tensor, 0 when none is set."""
        return self.tensors.address(self.loaded.find(name))

    def workspace_bytes(self) -> int:
        """The workspace that the current shapes need."""
        return workspace_bytes(self.sizing.resolve(), self.loaded.pool.threads)

    def _check_idle(self) -> None:
        if self._lock.locked():
            raise self._busy()

    def _busy(self) -> BindingError:
        return BindingError(
            "AR708", "execution context", "a call during another inference", "one inference at a time"
        )

    # ---- inferences ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """One inference; returns when the outputs are written."""
        if not self._acquire(False):
            raise self._busy()
        try:
            if not self.is_ready:
                self._make_ready()
            status = self._carried_out()
            self.sizing.is_computed = status == 0
        finally:
            self._release()
        if status:
            raise self._failed(status)
        self._notify()

    def run_again(self) -> bool:
        """The same inference as before; False if `run` is needed, which also reports errors."""
        if self.caller is not None or not self._acquire(False):  # a plug-in that fails is called once
            return False
        try:
            if not (self.is_ready and self.sizing.is_computed):
                return False
            return (self._run or self._run_anew)(self.address) == 0
        finally:
            self._release()

    def run_steps(self, report: Callable[[str, float], None]) -> None:
        """One inference, kernel by kernel; `report` is called with the name of each and its milliseconds, for
        kernels inside loops once, with the sum over all iterations."""
        if not self._acquire(False):
            raise self._busy()
        names = self.loaded.program.kernels
        times = dict[int, float]()
        try:
            self._make_ready()
            self._take_constants()
            self._forget()
            self._time_steps(range(len(names)), times)
            self.sizing.is_computed = True
        finally:
            self._release()
        self._notify()
        for k, milliseconds in times.items():
            report(names[k], milliseconds)

    def _time_steps(self, numbers: range, times: dict[int, float]) -> None:
        """Execute these steps, and add the milliseconds of each."""
        loops, inside = frozenset(self.loaded.program.loops), dict(self.loaded.program.inside)
        for k in self._steps(numbers):
            if k in loops:
                while self.loaded.again(self.address, k):
                    self._time_steps(range(k + 1, k + 1 + inside.get(k, 0)), times)
                continue
            begin = time.perf_counter()
            with self._constants.step(k):
                status = self.loaded.step(self.address, k)
            times[k] = times.get(k, 0.0) + (time.perf_counter() - begin) * 1e3
            if status:
                raise self._failed(status)

    def _steps(self, numbers: range) -> Iterator[int]:
        """The steps of these numbers except parts of others, each when its sizes are known."""
        behind, inside = numbers.start, dict(self.loaded.program.inside)
        known = pauses.computed_sizes(self.words, self.loaded.open_outputs)
        for k in numbers:
            if k < behind:  # a part of another one
                continue
            if (sizes := pauses.computed_sizes(self.words, self.loaded.open_outputs)) != known:
                self._take_over(known := sizes)
            behind = k + 1 + inside.get(k, 0)
            yield k

    def _carried_out(self) -> int:
        """The status of an inference, which pauses when it has computed open sizes."""
        self._forget()
        status = (self._run or self._run_anew)(self.address)
        while status < 0:
            self._take_over(pauses.computed_sizes(self.words, self.loaded.open_outputs))
            status = self.loaded.resume(self.address, -1 - status)
        return status

    def _run_anew(self, address: int) -> int:
        """An inference with the current constants, for an engine whose constants may change."""
        self._take_constants()
        return self.loaded.run(address) if self._constants.stream is None else self._run_streamed(address)

    def _run_streamed(self, address: int) -> int:
        """An inference of the version for these sizes, step by step."""
        guards, sizes = self.loaded.program.guards, self.sizing.sizes()
        chosen = next(k for k, (guard, _) in enumerate(guards) if value_of(guard, sizes))
        ends = [first for _, first in guards[1:]] + [len(self.loaded.program.kernels)]
        for k in self._steps(range(guards[chosen][1], ends[chosen])):
            with self._constants.step(k):
                status = self.loaded.step(address, k)
            if status:
                return status
        return Status.OK

    def _take_constants(self) -> None:
        """Hold the current constants for an inference; frames are filled again if these are new."""
        now = self.loaded.held.now
        if now.lacks:
            raise _lacking(self.loaded.plan)
        if now is not self._constants:
            self._constants, self.words[abi.CONSTS] = now, now.address
            self.words[abi.slot_word(len(self.tensors.bound), len(self.loaded.program.slots))] = 0

    def _forget(self) -> None:
        self._late = self.loaded.late
        pauses.forget(self.words, self.loaded.open_outputs)

    def _take_over(self, sizes: ComputedSizes) -> None:
        """Memory, slots and tables for sizes that an inference has computed; memory of outputs is
        requested."""
        resolved, bindings = self.sizing.resolve(sizes), self.loaded.plan.bindings
        if resolved is not self._frame.prepared and (status := self._frame.fit(resolved, keeps=True)):
            raise self._failed(status)
        known = {
            bindings[at].name for at, x in zip(self.loaded.open_outputs, sizes, strict=True) if x is not None
        }
        ready = [i for i in self._late if pauses.names(bindings[i]) <= known]
        self._late = tuple(i for i in self._late if i not in ready)
        self.tensors.check(ready, resolved)

    def fit(self, resolved: Resolved) -> None:
        """Memory, slots and tables for `resolved`, when an inference begins; sizes from the last one stay."""
        if status := self._frame.begin(resolved):
            raise self._failed(status)

    def execute(self) -> None:
        """Only the native call, for a caller that does all preparation itself."""
        status = self._carried_out()
        if status:
            raise self._failed(status)

    def _failed(self, status: int) -> AnyrtError:
        if status >= abi.FIRST_FAULT:
            return self._broken(status - abi.FIRST_FAULT)
        if status == Status.RAISED and self.caller is not None:
            return self.caller.error()
        if status == Status.STALE:
            do = "load it again; put a new plan beside the old one and rename it, instead of writing its file"
            return PlanError(
                "AR608", "inference", "a mapped plan file that changed", "the file as it was loaded", do
            )
        got = f"status {status} ({Status(status).name.lower()})"
        return CompileError("AR807", "inference", got, "status 0")

    def _broken(self, fault: int) -> AnyrtError:
        """The error for a failed condition, with the line of the user's program that added the layer."""
        where, error = self.loaded.program.fault_error(fault, self.words[-abi.FOUND_WORDS :])
        layers = (dict(x.details) for x in self.loaded.plan.layers if x.name == where)
        source = next((x["source"] for x in layers if "source" in x), None)
        return error if source is None else error.at(f"{where} ({source})")

    @property
    def can_stay_ready(self) -> bool:
        """False if each inference must check again: shape values change in place, allocators must be called,
        and sizes are computed again."""
        loaded = self.loaded
        return not loaded.value_inputs and not self.tensors.allocators and not loaded.open_outputs

    def _make_ready(self) -> None:
        resolved = self.sizing.resolve()
        self.fit(resolved)
        late = self.loaded.late
        self.tensors.check((i for i in range(len(self.tensors.bound)) if i not in late), resolved)
        self.is_ready = self.can_stay_ready

    def _notify(self) -> None:
        """Report the shapes of this inference to allocators."""
        for index, allocator in self.tensors.allocators.items():
            binding = self.loaded.plan.bindings[index]
            if binding.is_data_dependent:
                allocator.notify(binding.name, self.sizing.output_shape(index))


def _lacking(plan: Plan) -> RefitError:
    count = 0 if plan.refit is None else len(plan.refit.weights)
    first = "" if plan.refit is None else ", ".join(repr(w.title) for w in plan.refit.weights[:SHOWN])
    got = f"a plan that was stripped of its weights: {first}{', …' * (count > SHOWN)}"
    return RefitError(
        "AR844", f"engine {plan.name!r}", got, "a refit before the first inference", "use a Refitter"
    )
