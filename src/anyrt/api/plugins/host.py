"""The calls of plug-ins and collective operations during inferences.

Plug-ins are restored from the plan, and each context has its own clones. Native code calls a C function for
each `Site` with a frame of addresses of tensors and their shapes. While these stay the same, a call costs a
few microseconds more than the plug-in's function.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import accumulate, pairwise
from types import TracebackType
from typing import Final, Protocol

from anyrt.api.edge.interfaces import IErrorRecorder, tried
from anyrt.api.edge.quiet import Channel
from anyrt.api.model.dims import Dims
from anyrt.api.plugins.creators import IPluginCreator, IPluginCreatorV3One, IPluginCreatorV3Quick
from anyrt.api.plugins.desc import PluginTensorDesc
from anyrt.api.plugins.guarded import Guarded
from anyrt.api.plugins.kinds import Kind, wrong
from anyrt.api.plugins.layer import kind_of
from anyrt.api.plugins.registry import IPluginRegistry, Key, keys_of, shown
from anyrt.api.plugins.serialization import deserialize
from anyrt.api.plugins.user_calls import call_method, failure
from anyrt.api.plugins.v3 import IPluginResourceContext
from anyrt.core.dtype import storage_bytes
from anyrt.core.enums import DataType, QuickPluginCreationRequest, TensorRTPhase
from anyrt.core.errors import AnyrtError, PlanError, PluginError
from anyrt.core.lent import lending
from anyrt.plan import abi
from anyrt.plan.exchange import ExchangeCall
from anyrt.plan.file import PlanFile
from anyrt.plan.program import OutsideCall, PluginCall, PluginTensor, Program
from anyrt.runtime.exchanging import ExchangeSite, Seat
from anyrt.runtime.external import Callers

CALLED: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
HEADER: Final = abi.FIRST_BINDING * abi.WORD_BYTES
CHECKED: Final = "checked"


def callers(file: PlanFile, program: Program, registry: IPluginRegistry, channel: Channel) -> Callers:
    """A function that makes the calls of plug-ins and communicators for one context of an engine. PluginError
    for a plug-in that is not registered or cannot be restored."""
    places = {x.name: dict(x.details).get("source") for x in file.plan.layers}
    kinds: dict[str, Kind] = {}
    for call in (x for x in program.outside if isinstance(x, PluginCall)):
        if call.constant not in kinds:
            source = places.get(call.where)
            where = f"{call.where} ({source})" if source else call.where
            key, data = (call.name, call.version, call.space), _bytes(file, call.constant)
            kinds[call.constant] = restore(key, call.where, data, where, registry)
    checked = CHECKED in dict(file.plan.settings)
    outside = [_placed(call, places.get(call.where)) for call in program.outside]
    return lambda: Host(outside, kinds, channel, checked=checked)


def _placed(call: OutsideCall, source: str | None) -> OutsideCall:
    """A collective operation with the line of the program that added its layer. The record of a plug-in has
    it already."""
    is_known = source is not None and isinstance(call, ExchangeCall)
    return replace(call, where=f"{call.where} ({source})") if is_known else call


def restore(key: Key, layer: str, serialized: bytes, where: str, registry: IPluginRegistry) -> Kind:
    """The plug-in of a layer, from its serialized form."""
    creator = registry.get_creator(*key)
    if creator is None:
        do = "register it with trt.get_plugin_registry().register_creator(Creator()) or load_library(path)"
        others = [shown(k) for k in keys_of(registry) if k[0] == key[0]]
        wanted = f"a registered creator{', as ' * bool(others)}{' or '.join(others[:4])}"
        raise PluginError("AR823", where, f"the plug-in {shown(key)}", wanted, do)
    fields = deserialize(serialized, where)
    match creator:
        case IPluginCreator():
            data = fields[0].data.tobytes() if len(fields) else b""
            method = "deserialize_plugin"
            plugin = call_method(where, creator, method, layer, data)
        case IPluginCreatorV3One():
            method = "create_plugin"
            plugin = call_method(where, creator, method, layer, fields, TensorRTPhase.RUNTIME)
        case IPluginCreatorV3Quick():
            method = "create_plugin"
            quick = (key[0], key[2], fields, TensorRTPhase.RUNTIME, QuickPluginCreationRequest.UNKNOWN)
            plugin = call_method(where, creator, method, *quick)
        case _:
            raise wrong(where, creator, "register_creator", type(creator).__name__, "an IPluginCreatorV3One")
    if plugin is None:
        raise wrong(where, creator, method, "None", "a plug-in")
    kind, error = tried(kind_of, plugin, where)
    if error is not None or kind is None:
        raise wrong(where, creator, method, type(plugin).__name__, "a plug-in") from error
    return kind


def _bytes(file: PlanFile, name: str) -> bytes:
    """The bytes of a constant of the plan."""
    record = next((b for b in file.plan.held if b.name == name), None)  # a plan may lack others
    if record is None:
        raise PlanError("AR605", "plan, plug-ins", f"no constant {name!r}", "a constant of the plan")
    return bytes(file.weights[record.offset : record.offset + record.nbytes])


class Host:
    """The calls of one context."""

    def __init__(
        self, calls: Sequence[OutsideCall], kinds: Mapping[str, Kind], channel: Channel, *, checked: bool
    ) -> None:
        self.stream = 0
        self.seat = Seat([x for x in calls if isinstance(x, ExchangeCall)])
        self._kinds: dict[str, Kind] = {}
        with ExitStack() as attached:
            offered = IPluginResourceContext()
            offered.__dict__["_error_recorder"] = _recorder(channel)
            for call in (x for x in calls if isinstance(x, PluginCall)):
                if call.constant not in self._kinds:
                    kind = kinds[call.constant].attach(offered)
                    attached.callback(kind.release)
                    self._kinds[call.constant] = kind
                    kind.set_tactic(call.tactic)
            self._end = weakref.finalize(self, attached.pop_all().close)
        sites = [
            ExchangeSite(call, self.seat)
            if isinstance(call, ExchangeCall)
            else Site(call, self._kinds[call.constant], checked=checked)
            for call in calls
        ]
        self._traps = [ErrorTrap(site) for site in sites]
        self._functions: list[object] = [None] * len(sites)
        self._table = (ctypes.c_void_p * len(sites))()
        self.address = ctypes.addressof(self._table)
        self._listen()

    def _listen(self) -> None:
        """Create the functions for native code, one for each call."""
        for k, trap in enumerate(self._traps):
            answers = _answers(trap, weakref.ref(self))
            next(answers)
            function = CALLED(answers.send)
            self._functions[k], self._table[k] = function, ctypes.cast(function, ctypes.c_void_p)

    def error(self) -> AnyrtError:
        """The error that ended the last inference."""
        trap = next((x for x in self._traps if x.error is not None), None)
        if trap is None:
            self._listen()  # a generator has ended
            do = "see the traceback that Python printed, and run again"
            return PluginError("AR824", "inference", "an exception during a plug-in", "no exception", do)
        raised, trap.error = trap.error, None
        assert raised is not None, "the trap has an error"
        if not isinstance(raised, Exception):
            raise raised
        error = trap.site.explained(raised)
        if error is not raised:
            error.__cause__ = raised
        return error


class CallSite(Protocol):
    """A call that native code makes."""

    def call(self, frame: int, stream: int) -> None:
        """Perform the call for the frame."""

    def explained(self, raised: Exception) -> AnyrtError:
        """The error of an inference that the exception `raised` has ended."""


class ErrorTrap:
    """Stores the exception that ends a call, since exceptions cannot pass through native code. `is_over`: the
    generator is closed."""

    def __init__(self, site: CallSite) -> None:
        self.site = site
        self.error: BaseException | None = None
        self.is_over = False

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        # A closed generator raises GeneratorExit at its yield; one from a plug-in has a longer traceback.
        self.is_over = kind is GeneratorExit and trace is not None and trace.tb_next is None
        self.error = None if self.is_over else error
        return True


def _answers(trap: ErrorTrap, host: weakref.ref[Host]) -> Generator[int, int, None]:
    """A generator that receives frames and yields the status for native code. Python raises the
    KeyboardInterrupt of a kernel at the entry of the next function; a generator resumes inside the code that
    records exceptions.

    It does not hold `host`: a cycle through native code would keep plug-ins alive for long."""
    status = abi.DONE
    while not trap.is_over:
        with trap:
            while True:
                frame = yield status
                owner = host()
                assert owner is not None, "a context lives while it runs"
                lending(trap.site.call, frame, owner.stream)
                status = abi.DONE
        status = abi.Status.RAISED


def _recorder(channel: Channel) -> IErrorRecorder | None:
    holder: Channel | None = channel
    while holder is not None and holder.recorder is None:
        holder = holder.parent
    return None if holder is None else holder.recorder


class Site:
    """A call of a plug-in, which keeps its arguments while addresses and shapes stay the same."""

    def __init__(self, call: PluginCall, kind: Kind, *, checked: bool) -> None:
        self.kind = kind
        self._call, self._checked = call, checked
        self._words = len(call.tensors) + (call.workspace > 0) + sum(t.rank for t in call.tensors)
        self._format = struct.Struct(f"<{self._words}q")
        self._known = b""
        self._sizes: tuple[tuple[int, ...], ...] = ()
        self._passed: list[tuple[PluginTensorDesc, Dims, list[int]]] = []
        self._descs: tuple[list[PluginTensorDesc], list[PluginTensorDesc]] = ([], [])
        self._addresses: tuple[list[int], list[int], int] = ([], [], 0)
        self._counts: list[tuple[int, int]] = []
        self._enqueue = kind.enqueue

    def call(self, frame: int, stream: int) -> None:
        """Call the plug-in for the frame."""
        words = ctypes.string_at(frame + HEADER, self._format.size)
        if words != self._known:
            self._renew(words)
        if self.kind.shown_sizes is not self._sizes:
            self._describe()
            self.kind.show(*self._descs)
            self.kind.shown_sizes = self._sizes
        if not self._are_unchanged():
            self._describe()
        inputs, outputs, workspace = self._addresses
        if self._checked:
            self._guarded(inputs, outputs, workspace, stream)
        else:
            # A plug-in may count by adding to a size tensor, so that begins at 0.
            for place, nbytes in self._counts:
                ctypes.memset(place, 0, nbytes)
            self._enqueue(*self._descs, inputs.copy(), outputs.copy(), workspace, stream)

    def explained(self, raised: Exception) -> AnyrtError:
        """`raised` if it names this layer already, otherwise PluginError AR824 for it."""
        where = self.kind.where
        if isinstance(raised, AnyrtError) and raised.where.startswith(where):
            return raised
        return failure(where, f"{type(self.kind.plugin).__name__}.enqueue", raised)

    def _renew(self, words: bytes) -> None:
        numbers, call = self._format.unpack(words), self._call
        count, tensors = call.inputs, len(call.tensors)
        workspace = numbers[tensors] if call.workspace else 0
        self._addresses = [*numbers[:count]], [*numbers[count:tensors]], workspace
        outs = zip(self._addresses[1], call.tensors[count:], call.over, strict=True)
        self._counts = [(at, storage_bytes(t.dtype, 1)) for at, t, over in outs if over < 0 and _counts(t)]
        first = tensors + (call.workspace > 0)
        ends = list(accumulate((t.rank for t in call.tensors), initial=first))
        sizes = tuple(numbers[a:b] for a, b in pairwise(ends))
        if sizes != self._sizes:
            self._sizes = sizes
            self._describe()
        self._known = words

    def _describe(self) -> None:
        descs, count = [_desc(self._call, k, x) for k, x in enumerate(self._sizes)], self._call.inputs
        self._passed = [(d, d.dims, [*n]) for d, n in zip(descs, self._sizes, strict=True)]
        self._descs = descs[:count], descs[count:]

    def _are_unchanged(self) -> bool:
        """Whether the plug-in has not changed its arguments. This check is faster than creating them for each
        call."""
        inp, out = self._descs
        if len(inp) + len(out) != len(self._passed):
            return False
        rows = zip((*inp, *out), self._passed, self._call.tensors, strict=True)
        for desc, (passed, dims, sizes), tensor in rows:
            if desc is not passed or passed.dims is not dims or dims != sizes:
                return False
            if (passed.type, passed.format, passed.scale) != (tensor.dtype, tensor.format, tensor.scale):
                return False
        return True

    def _guarded(self, inputs: list[int], outputs: list[int], workspace: int, stream: int) -> None:
        """Call the plug-in on guarded memory, and check that afterwards."""
        guarded = Guarded(self._call, self._sizes, inputs, outputs)
        self._enqueue(*self._descs, *guarded.addresses, guarded.workspace, stream)
        guarded.check(self.kind.where, type(self.kind.plugin).__name__)


def _counts(tensor: PluginTensor) -> bool:
    """Whether the output may be a size tensor."""
    return not tensor.rank and tensor.dtype in (DataType.INT32, DataType.INT64)


def _desc(call: PluginCall, k: int, sizes: tuple[int, ...]) -> PluginTensorDesc:
    tensor, desc = call.tensors[k], PluginTensorDesc()
    desc.dims, desc.type, desc.format, desc.scale = Dims(sizes), tensor.dtype, tensor.format, tensor.scale
    return desc
