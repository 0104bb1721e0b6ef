"""One inference at a time: shapes and addresses are set, then run again and again.

All that native code needs lies in one array of words, which the setters keep up to date, so that a run in
unchanged circumstances is one native call with one pointer.
"""

from __future__ import annotations

import ctypes
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from anyrt.core.counts import counts, is_open
from anyrt.core.dtype import storage_bytes
from anyrt.core.enums import TensorFormat
from anyrt.core.errors import AnyrtError, BindingError, CompileError, PlanError, RefitError, ResourceError
from anyrt.plan import abi
from anyrt.plan.abi import Status
from anyrt.plan.device import Memory
from anyrt.plan.plan import Binding, Plan
from anyrt.runtime import pauses, reach
from anyrt.runtime.arrays import UNBOUND, Bindable, Bound, bind, read_values
from anyrt.runtime.loaded import Loaded, static_shape
from anyrt.runtime.memory import EMPTY, Policy, Workspace, adopt, take, workspace_bytes
from anyrt.runtime.pauses import Told
from anyrt.runtime.shapes import Resolved, Shape, check_limits, check_shape, found_shape, value_of
from anyrt.runtime.shared import check, rivals

_ALLOCATOR_ALIGNMENT = 256
SHOWN = 5  # names in a message
MOST_PLACES = 64  # of one tensor that are known to be there


class OutputAllocator(Protocol):
    """Gives memory for an output when its size is known."""

    def reallocate(self, name: str, current: int, nbytes: int, alignment: int) -> int | None:
        """An address with room for `nbytes`, `current` if it has; 0 or None refuses."""

    def notify(self, name: str, shape: Shape) -> None:
        """The shape of the output of this run."""


class Context:
    """Shapes, addresses and memory of one caller; see `Loaded` for what it shares with others."""

    def __init__(self, loaded: Loaded, policy: Policy, profile: int, limit: int | None) -> None:
        loaded.check_profile(profile)
        self.loaded, self.policy, self.limit = loaded, policy, limit
        self.profile = profile
        count = len(loaded.plan.bindings)
        words = abi.slot_word(count, len(loaded.program.slots)) + loaded.program.frames
        self.words = array("q", bytes(words * abi.WORD_BYTES))
        self.address = self.words.buffer_info()[0]
        self.caller = None if loaded.callers is None else loaded.callers()
        self.words[abi.OUTWARD] = 0 if self.caller is None else self.caller.address
        self.words[abi.POOL] = loaded.pool.address
        self._constants = loaded.held.now
        self.words[abi.CONSTS] = self._constants.address
        if abi.CODE in dict(loaded.program.entries):  # an image may hold functions alone
            self.words[abi.PROGRAM] = loaded.code.address(abi.CODE)
        self._bound: list[Bound | None] = [None] * count
        self._rivals = rivals(loaded.plan.bindings, loaded.sources)
        self._shapes: list[Shape | None] = []
        self._allocators: dict[int, OutputAllocator] = {}
        self._prepared: Resolved | None = None
        self._tables: Memory | None = None
        self._workspace: Workspace = EMPTY
        self.is_ready = False
        # Of sizes that data decide, whether they are those of a run for the shapes that are set now.
        self._has_found = False
        self._found = array("q", bytes(abi.WORD_BYTES * count))
        # The words of sizes with an upper bound, which native code loads.
        first = abi.slot_word(count, 0)
        bounded = (n for n, s in enumerate(loaded.plan.symbols) if s.most is not None and not is_open(s.sym))
        self._loaded_words = frozenset(first + n for n in bounded)
        for index in loaded.counts.values():
            own = self._found.buffer_info()[0] + abi.WORD_BYTES * index
            self._bound[index], self.words[abi.FIRST_BINDING + index] = Bound(own), own
        # The state that a run begins with, and those outputs whose sizes this run has not found yet.
        self._begun: Resolved | None = None
        self._late = loaded.late
        self._run = self._run_anew if loaded.held.can_change else loaded.run
        self._use_lock()
        # Of each tensor the addresses where so many bytes were there when they were looked at.
        self._places: list[dict[int, int]] = [{} for _ in range(count)]
        loaded.pool.listeners.add(self)
        reach.listen(self)
        self._enter_profile(profile)
        if policy is Policy.STATIC:
            self._use(take(loaded.device, loaded.workspace_bytes(), limit))

    def _use_lock(self) -> None:
        self._lock = threading.Lock()
        self._acquire, self._release = self._lock.acquire, self._lock.release

    def after_fork(self) -> None:
        """Prepare again before the next run, which starts the threads of the new process."""
        self._use_lock()
        self._prepared, self.is_ready = None, False

    # ---- shapes -----------------------------------------------------------------------------------------

    def set_profile(self, profile: int) -> None:
        """Use another profile; the shapes that were set are forgotten."""
        self.loaded.check_profile(profile)
        self._check_idle()
        self._enter_profile(profile)

    def _enter_profile(self, profile: int) -> None:
        self.profile, self.is_ready, self._has_found = profile, False, False
        self._shapes = [self._pinned(b) for b in self.loaded.resolver.inputs]
        if self.policy is Policy.ON_PROFILE_CHANGE:
            needed = self.loaded.workspace_bytes(profile)
            self._use(take(self.loaded.device, needed, self.limit))

    def _pinned(self, binding: Binding) -> Shape | None:
        """The only shape that is possible, None when there are several."""
        limits = self.loaded.limits(self.profile, binding.name, is_values=False)
        if limits is not None and limits.min == limits.max:
            return limits.min
        return static_shape(binding)

    def set_shape(self, name: str, shape: Shape) -> None:
        """The shape of an input from now on."""
        index = self._input(name)
        if shape == self._shapes[index]:
            return
        self._check_idle()
        limits = self.loaded.limits(self.profile, name, is_values=False)
        check_shape(self.loaded.plan.bindings[index], shape, limits)
        self._shapes[index] = shape
        self.is_ready = self._has_found = False

    def shape(self, name: str, is_found: bool = True) -> Shape:
        """The shape of an input or output, −1 for what is not known yet; with `is_found` as the last run left
        it, else −1 for all that data decide."""
        index = self.loaded.find(name)
        known = self._shapes[index] if index < len(self._shapes) else None
        if known is None and not self.missing():
            known = self.resolve().shapes[index]
            known = self.found_shape(index) if is_found and -1 in known else known
        if known is not None:
            return known
        return _declared(self.loaded.plan.bindings[index])

    def found_shape(self, index: int) -> Shape:
        """The shape of an output as the last run left it, −1 for what data decide and no run has found."""
        sizes = self.sizes()
        for name, at in self.loaded.counts.items():
            del sizes[name]
            if self._has_found:
                sizes[name] = ctypes.c_int64.from_address(self.words[abi.FIRST_BINDING + at]).value
        return found_shape(self.loaded.plan.bindings[index].shape, sizes)

    def missing(self) -> list[str]:
        """Inputs without a shape, and shape tensors without an address."""
        bindings = self.loaded.plan.bindings
        no_shape = {i for i, shape in enumerate(self._shapes) if shape is None}
        no_values = {i for i in self.loaded.value_inputs if not (self._bound[i] or UNBOUND).address}
        return [bindings[i].name for i in sorted(no_shape | no_values)]

    def resolve(self, told: Told = ()) -> Resolved:
        """All sizes for the shapes, and the elements of shape tensors, as they are now; `told`: what the run
        has found."""
        missing = self.missing()
        if missing:
            raise self._incomplete(missing[0])
        shapes = tuple(s for s in self._shapes if s is not None)
        return self.loaded.resolver.resolve(shapes, self._values(), told)

    def sizes(self) -> dict[str, int]:
        """The value of every dynamic size, where shapes and the elements of shape tensors are known."""
        self.resolve()
        return self.loaded.resolver.sizes(tuple(s for s in self._shapes if s is not None), self._values())

    def _incomplete(self, name: str) -> BindingError:
        index = self.loaded.find(name)
        if self._shapes[index] is None:
            declared = _declared(self.loaded.plan.bindings[index])
            got, do = f"no shape for {declared}", f"call context.set_input_shape({name!r}, shape)"
            return BindingError("AR707", name, got, "all of its sizes", do)
        got, do = "no address", f"call context.set_tensor_address({name!r}, array)"
        return BindingError("AR707", name, got, "one, as sizes depend on its values", do)

    def _values(self) -> tuple[Shape | None, ...]:
        values: list[Shape | None] = [None] * len(self._shapes)
        for i in self.loaded.value_inputs:
            bound, binding, shape = self._bound[i], self.loaded.plan.bindings[i], self._shapes[i]
            assert bound is not None, f"{binding.name} has no address"
            assert shape is not None, f"{binding.name} has no shape"
            count = shape[0] if shape else 1
            self.check_place(i, storage_bytes(binding.dtype, count))
            values[i] = read_values(binding, bound.address, count)
            limits = self.loaded.limits(self.profile, binding.name, is_values=True)
            if limits is not None:
                check_limits(binding.name, values[i] or (), limits)
        return tuple(values)

    # ---- memory -----------------------------------------------------------------------------------------

    def set_address(self, name: str, value: Bindable) -> None:
        """The memory of an input or output: an address, a NumPy array or a DLPack object, which is kept.

        An array gives a dynamic input its shape as well when none was set, unless its format is another one
        than LINEAR; the address 0 resets.
        """
        index = self.loaded.find(name)
        if self._lock.locked():
            self._check_idle()
        binding = self.loaded.plan.bindings[index]
        bound = bind(binding, value)
        is_open = index < len(self._shapes) and self._shapes[index] is None
        if is_open and bound.shape is not None and binding.format is TensorFormat.LINEAR:
            self.set_shape(name, bound.shape)
        before, self._bound[index] = self.words[abi.FIRST_BINDING + index], bound
        self.words[abi.FIRST_BINDING + index] = bound.address
        if self.is_ready and self._prepared is not None:
            nbytes = self._prepared.nbytes[index]
            fits = bool(bound.address) and bound.nbytes in (None, nbytes)
            self.is_ready = fits and (bound.address == before or self._may_move(index, bound, self._prepared))

    def forget(self, begin: int, end: int) -> None:
        """Look again at what lies there before the next run."""
        for places in self._places:
            for address in [a for a in list(places) if begin <= a < end]:  # while others look there
                places.pop(address, None)
        if any(b is not None and b.nbytes is None and begin <= b.address < end for b in self._bound):
            self.is_ready = False

    def _lack(self, index: int, nbytes: int) -> str:
        """What the bare address of a tensor lacks, "" where nothing does."""
        address, places = (self._bound[index] or UNBOUND).address, self._places[index]
        if places.get(address, -1) >= nbytes:
            return ""
        lacks = reach.lack(address, nbytes, writes=not self.loaded.plan.bindings[index].is_input)
        if not lacks:
            if len(places) >= MOST_PLACES:
                places.clear()
            places[address] = nbytes
        return lacks

    def check_place(self, index: int, nbytes: int) -> None:
        """BindingError AR712 where the address of a tensor leads to less than so many bytes."""
        bound, name = self._bound[index], self.loaded.plan.bindings[index].name
        lacks = "" if bound is None or bound.nbytes is not None or not nbytes else self._lack(index, nbytes)
        if bound is not None and lacks:
            got, wanted = f"address {bound.address:#x}, {lacks}", f"one of {nbytes} bytes"
            raise BindingError("AR712", name, got, wanted)

    def bound_address(self, name: str) -> int:
        """The address of a tensor, 0 when none is set."""
        return (self._bound[self.loaded.find(name)] or UNBOUND).address

    def set_allocator(self, name: str, allocator: OutputAllocator | None) -> None:
        """Who gives memory for an output in each run; None ends that."""
        index = self.loaded.find(name)
        if self.loaded.plan.bindings[index].is_input:
            do = "bind the memory of inputs with set_tensor_address"
            raise BindingError("AR706", name, got="an input", wanted="an output", do=do)
        self._check_idle()
        self.is_ready = False
        self._allocators.pop(index, None)
        if allocator is not None:
            self._allocators[index] = allocator

    def set_workspace(self, address: int, nbytes: int) -> None:
        """The user's memory for a context with `Policy.USER_MANAGED`."""
        self._check_idle()
        self._use(adopt(address, nbytes))

    def workspace_bytes(self) -> int:
        """The workspace that the current shapes need."""
        return workspace_bytes(self.resolve(), self.loaded.pool.threads)

    def _use(self, workspace: Workspace) -> None:
        self._workspace, self._prepared, self.is_ready = workspace, None, False

    # ---- runs -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """One inference; returns when the outputs are written."""
        if not self._acquire(False):
            raise self._busy()
        try:
            if not self.is_ready:
                self._make_ready()
            status = self._carried_out()
            self._has_found = status == 0
        finally:
            self._release()
        if status:
            raise self._failed(status)
        self._notify()

    def run_again(self) -> bool:
        """The same inference as before; False where `run` is needed, which also says what is wrong."""
        if self.caller is not None or not self._acquire(False):  # a plug-in that fails is called once
            return False
        try:
            return self.is_ready and self._has_found and self._run(self.address) == 0
        finally:
            self._release()

    def run_steps(self, report: Callable[[str, float], None]) -> None:
        """One inference, kernel by kernel; `report` is told the name of each and its milliseconds."""
        if not self._acquire(False):
            raise self._busy()
        times, names = list[tuple[str, float]](), self.loaded.program.kernels
        try:
            self._make_ready()
            self._take_constants()
            self._forget()
            for k in self._steps(range(len(names))):
                begin = time.perf_counter()
                with self._constants.step(k):
                    status = self.loaded.step(self.address, k)
                times.append((names[k], (time.perf_counter() - begin) * 1e3))
                if status:
                    raise self._failed(status)
            self._has_found = True
        finally:
            self._release()
        self._notify()
        for name, milliseconds in times:
            report(name, milliseconds)

    def _steps(self, numbers: range) -> Iterator[int]:
        """The steps of these numbers but for parts of others, each when sizes that were found are known."""
        behind, inside = numbers.start, dict(self.loaded.program.inside)
        known = pauses.told(self.words, self.loaded.open_outputs)
        for k in numbers:
            if k < behind:  # a part of another one
                continue
            if (told := pauses.told(self.words, self.loaded.open_outputs)) != known:
                self._take_over(known := told)
            behind = k + 1 + inside.get(k, 0)
            yield k

    def _carried_out(self) -> int:
        """The status of a run, which pauses where it has found sizes."""
        self._forget()
        status = self._run(self.address)
        while status < 0:
            self._take_over(pauses.told(self.words, self.loaded.open_outputs))
            status = self.loaded.resume(self.address, -1 - status)
        return status

    def _run_anew(self, address: int) -> int:
        """A run with the constants of the moment, of an engine whose constants may change."""
        self._take_constants()
        return self.loaded.run(address) if self._constants.stream is None else self._run_streamed(address)

    def _run_streamed(self, address: int) -> int:
        """A run of the version that the sizes choose, step by step."""
        guards, sizes = self.loaded.program.guards, self.sizes()
        chosen = next(k for k, (guard, _) in enumerate(guards) if value_of(guard, sizes))
        ends = [first for _, first in guards[1:]] + [len(self.loaded.program.kernels)]
        for k in self._steps(range(guards[chosen][1], ends[chosen])):
            with self._constants.step(k):
                status = self.loaded.step(address, k)
            if status:
                return status
        return Status.OK

    def _take_constants(self) -> None:
        """Hold the constants of the moment for a run; frames are filled again where they are new."""
        now = self.loaded.held.now
        if now.lacks:
            raise _lacking(self.loaded.plan)
        if now is not self._constants:
            self._constants, self.words[abi.CONSTS] = now, now.address
            self.words[abi.slot_word(len(self._bound), len(self.loaded.program.slots))] = 0

    def _forget(self) -> None:
        self._late = self.loaded.late
        pauses.forget(self.words, self.loaded.open_outputs)

    def _take_over(self, told: Told) -> None:
        """Memory, slots and tables for sizes that a run has found; memory of outputs is asked for."""
        resolved, bindings = self.resolve(told), self.loaded.plan.bindings
        if resolved is not self._prepared:
            self._fit(resolved, keeps=True)
        known = {
            bindings[at].name for at, x in zip(self.loaded.open_outputs, told, strict=True) if x is not None
        }
        found = [i for i in self._late if pauses.names(bindings[i]) <= known]
        self._late = tuple(i for i in self._late if i not in found)
        self._check_outputs(found, resolved)

    def fit(self, resolved: Resolved) -> None:
        """Memory, slots and tables for `resolved`, when a run begins; what the last one has found stays."""
        if self._prepared is None or resolved is not self._begun:
            self._fit(resolved, keeps=False)
            self._begun = resolved

    def _fit(self, resolved: Resolved, *, keeps: bool) -> None:
        """`keeps`: also what lies in the arena, and sizes that were found."""
        loaded, words = self.loaded, self.words
        loaded.pool.ensure()
        needed, before, self._prepared = workspace_bytes(resolved, loaded.pool.threads), self._prepared, None
        if needed > self._workspace.nbytes:
            self._grow(needed, 0 if before is None or not keeps else before.arena_bytes)
        if resolved.table_bytes > (self._tables.nbytes if self._tables else 0):
            self._tables = loaded.device.allocate(resolved.table_bytes)
        words[abi.ARENA] = self._workspace.address
        words[abi.SCRATCH] = self._workspace.address + resolved.arena_bytes
        words[abi.SCRATCH_STRIDE] = resolved.scratch_bytes
        words[abi.TABLES] = self._tables.address if self._tables else 0
        for word, value in enumerate(resolved.slots, abi.slot_word(len(loaded.plan.bindings), 0)):
            if not (keeps and word in self._loaded_words):
                words[word] = value
        status = loaded.prepare(self.address)
        if status:
            raise self._failed(status)
        self._prepared = resolved

    def _grow(self, needed: int, kept: int) -> None:
        """More workspace, whose first `kept` bytes are those of the old one."""
        if self.policy is Policy.USER_MANAGED:
            got, wanted = f"device memory of {self._workspace.nbytes:,} bytes", f"{needed:,}"
            raise ResourceError("AR801", "execution context", got=got, wanted=wanted, do="set more memory")
        before = self._workspace
        if not kept:
            self._workspace = EMPTY  # first, so that both need not be there at once
        self._workspace = take(self.loaded.device, needed, self.limit)
        if kept:
            ctypes.memmove(self._workspace.address, before.address, kept)

    def execute(self) -> None:
        """The run alone, for a caller that keeps everything in order itself."""
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
                "AR608", "inference", "a plan file that changed", "the file as it was loaded", do
            )
        got = f"status {status} ({Status(status).name.lower()})"
        return CompileError("AR807", "inference", got, "status 0")

    def _broken(self, fault: int) -> AnyrtError:
        """The error for what a run has found, with the line of the user's program that added the layer."""
        where, error = self.loaded.program.found(fault, self.words[-abi.FOUND_WORDS :])
        layers = (dict(x.details) for x in self.loaded.plan.layers if x.name == where)
        source = next((x["source"] for x in layers if "source" in x), None)
        return error if source is None else error.at(f"{where} ({source})")

    @property
    def can_stay_ready(self) -> bool:
        """False when each run looks again: shape values change in place, allocators want to be asked, and
        sizes are found anew."""
        loaded = self.loaded
        return not loaded.value_inputs and not self._allocators and not loaded.open_outputs

    def _make_ready(self) -> None:
        resolved = self.resolve()
        self.fit(resolved)
        late = self.loaded.late
        self._check_outputs((i for i in range(len(self._bound)) if i not in late), resolved)
        self.is_ready = self.can_stay_ready

    def _check_outputs(self, tensors: Iterable[int], resolved: Resolved) -> None:
        """Memory for these tensors, asked for where somebody gives it; none lies where it must not."""
        for index in tensors:
            if index in self._allocators:
                self._ask(index, self._allocators[index], resolved)
            _check_bound(self.loaded.plan.bindings[index], self._bound[index], resolved.nbytes[index])
            self.check_place(index, resolved.nbytes[index])
        loaded = self.loaded
        check(loaded.plan.bindings, loaded.sources, self._addresses(), resolved.nbytes, loaded.lenders)

    def _addresses(self) -> array[int]:
        """Of all inputs and outputs."""
        return self.words[abi.FIRST_BINDING : abi.FIRST_BINDING + len(self._bound)]

    def _may_move(self, index: int, bound: Bound, resolved: Resolved) -> bool:
        """Whether a tensor may lie there, with all else as it was; False where `check` has to say."""
        is_there = bound.nbytes is not None or not self._lack(index, resolved.nbytes[index])
        return is_there and self._stays_apart(resolved, index)

    def _stays_apart(self, resolved: Resolved, index: int) -> bool:
        """Whether the tensor surely meets none that it must not; False where `check` has to say."""
        rivals = self._rivals[index]
        if rivals is None:
            return False
        words, nbytes = self.words, resolved.nbytes
        begin = words[abi.FIRST_BINDING + index]
        end = begin + nbytes[index]
        for k in rivals:
            other = words[abi.FIRST_BINDING + k]
            if other < end and begin < other + nbytes[k]:
                return False
        return True

    def _ask(self, index: int, allocator: OutputAllocator, resolved: Resolved) -> None:
        name, current = self.loaded.plan.bindings[index].name, self._bound[index] or UNBOUND
        nbytes = max(1, resolved.nbytes[index])
        address = allocator.reallocate(name, current.address, nbytes, _ALLOCATOR_ALIGNMENT)
        if not address:
            do = "return an address from reallocate_output"
            raise BindingError("AR709", name, f"{address}", f"an address of {nbytes} bytes", do)
        self._bound[index] = Bound(address)
        self.words[abi.FIRST_BINDING + index] = address
        if -1 not in resolved.shapes[index] and index not in self.loaded.late:
            allocator.notify(name, resolved.shapes[index])

    def _notify(self) -> None:
        """Tell allocators what a run has found out."""
        for index, allocator in self._allocators.items():
            binding = self.loaded.plan.bindings[index]
            if any(map(counts, binding.shape)):
                allocator.notify(binding.name, self.found_shape(index))

    # ---- guards -----------------------------------------------------------------------------------------

    def _input(self, name: str) -> int:
        index = self.loaded.find(name)
        if index >= len(self._shapes):
            do = "shapes of outputs follow from those of inputs"
            raise BindingError("AR706", name, got="an output", wanted="an input", do=do)
        return index

    def _check_idle(self) -> None:
        if self._lock.locked():
            raise self._busy()

    def _busy(self) -> BindingError:
        return BindingError("AR708", "execution context", "a call while another runs", "one at a time")


def _declared(binding: Binding) -> Shape:
    """The shape in the network, −1 for dynamic sizes."""
    return tuple(d if isinstance(d, int) else -1 for d in binding.shape)


def _lacking(plan: Plan) -> RefitError:
    count = 0 if plan.refit is None else len(plan.refit.weights)
    first = "" if plan.refit is None else ", ".join(repr(w.title) for w in plan.refit.weights[:SHOWN])
    got = f"a plan that was stripped of its weights: {first}{', …' * (count > SHOWN)}"
    return RefitError("AR844", f"engine {plan.name!r}", got, "a refit before the first run", "use a Refitter")


def _check_bound(binding: Binding, bound: Bound | None, nbytes: int) -> None:
    if bound is None:
        if nbytes:
            do = f"call context.set_tensor_address({binding.name!r}, array)"
            raise BindingError("AR701", binding.name, "no address", f"one of {nbytes} bytes", do)
        return
    if nbytes and not bound.address:
        do = f"call context.set_tensor_address({binding.name!r}, array)"
        raise BindingError("AR702", binding.name, "address 0", f"an address of {nbytes} bytes", do)
    # A flat array may be a buffer kept for larger shapes; one with dimensions means exactly these.
    is_buffer = bound.shape is None or len(bound.shape) == 1 or any(map(counts, binding.shape))
    if bound.nbytes is not None and (bound.nbytes < nbytes or (bound.nbytes > nbytes and not is_buffer)):
        got = f"an array of {bound.nbytes} bytes, shape {bound.shape}"
        do = "bind an array of the shape that get_tensor_shape gives"
        if binding.format is not TensorFormat.LINEAR:
            do = f"bind an array of {nbytes} bytes, as its format is {binding.format.name}"
        raise BindingError("AR704", binding.name, got=got, wanted=f"{nbytes} bytes", do=do)
