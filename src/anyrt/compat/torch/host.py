"""Makes the host PyTorch's device "cuda", if PyTorch has no CUDA: `x.cuda()`, `device="cuda"`, streams,
events.

    x = torch.zeros(1, 3, 224, 224, device="cuda")      # a tensor of the CPU
    context.set_tensor_address("x", x.data_ptr())
    context.execute_async_v3(torch.cuda.current_stream().cuda_stream)

The device of a tensor is the CPU, but `is_cuda` is True. Each name has its own function, because PyTorch
identifies functions by identity and rejects tables in which one function has two names.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final, ParamSpec, TypeVar

from anyrt.compat.host.device import DEVICE
from anyrt.compat.torch import autocast as torch_autocast
from anyrt.compat.torch import cuda as torch_cuda
from anyrt.compat.torch import graphs as torch_graphs

# Any: objects with which PyTorch traces a program.
P = ParamSpec("P")
R = TypeVar("R")

_CUDA: Final = re.compile(r"cuda(:\d+)?")
_LIKE: Final = ("empty", "full", "ones", "rand", "randint", "randn", "zeros")
_OTHERS: Final = ("load", "set_default_device")
_METHODS: Final = ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "new_empty_strided")


def offer(torch: ModuleType) -> None:
    """Make the host the device "cuda" of this PyTorch, unless it has CUDA."""
    if torch.cuda.is_available() or "anyrt" in vars(torch.cuda):
        return
    torch.cuda.anyrt = True
    # Programs pass the address of a tensor as an address of device memory.
    DEVICE.knows_all = False
    _take_host(torch)
    for name, member in torch_cuda.members(torch).items():
        setattr(torch.cuda, name, member)
    for member in (torch_graphs.CUDAGraph, torch_graphs.graph):
        setattr(torch.cuda, member.__name__, member)
    for function in (torch_graphs.graph_pool_handle, torch_graphs.is_current_stream_capturing):
        setattr(torch.cuda, function.__name__, function)
    for name in ("mark", "range_pop", "range_push"):
        setattr(torch.cuda.nvtx, name, _nothing(name))
    torch_autocast.offer(torch)


def _take_host(torch: ModuleType) -> None:
    """Wrap the functions and methods with a device argument."""
    # PyTorch caches a list of its functions, which must contain the original ones.
    devices = importlib.import_module("torch.utils._device")
    constructors: Iterable[Callable[..., object]] = devices._device_constructors()
    homes = (torch, torch.fft, torch.signal.windows, torch.sparse)
    for call in constructors:
        for home in homes:
            if vars(home).get(call.__name__) is call:
                setattr(home, call.__name__, _known_to_scripts(hosted(torch, call), call))
    for name in (*(f"{n}_like" for n in _LIKE), *_OTHERS):
        call = getattr(torch, name)
        setattr(torch, name, _known_to_scripts(hosted(torch, call), call))
    for name in _METHODS:
        setattr(torch.Tensor, name, hosted(torch, getattr(torch.Tensor, name)))
    for kind in (torch.Tensor, torch.nn.Module):
        kind.to = hosted(torch, kind.to, by_number=True)
    torch.Tensor.cuda = _cuda_of(torch.Tensor.cuda)
    torch.nn.Module.cuda = _cuda_of(torch.nn.Module.cuda)
    torch.Tensor.pin_memory = _itself(torch.Tensor.pin_memory)
    torch.Tensor.record_stream = _itself(torch.Tensor.record_stream)
    setattr(torch, "Generator", _generator(torch))  # noqa: B010  # mypy does not know this name
    setattr(torch, "device", _numbered(torch.device))  # noqa: B010  # the same
    torch._C._CudaDeviceProperties = torch_cuda.Properties
    torch.Tensor.is_cuda = _is_cuda(torch.Tensor.is_cuda)
    devices.DeviceContext.__init__ = hosted(torch, devices.DeviceContext.__init__)


def hosted(torch: ModuleType, call: Callable[P, R], by_number: bool = False) -> Callable[P, R]:
    """`call` with each CUDA device among its arguments replaced by the CPU; for `to`, a number is a
    device."""

    def host(x: object, is_device: bool) -> object:
        if isinstance(x, str):
            return "cpu" if _CUDA.fullmatch(x) else x
        if isinstance(x, torch.device):
            return torch.device("cpu") if x.type == "cuda" else x
        return "cpu" if is_device and type(x) is int else x

    @functools.wraps(call)
    def taken(*args: P.args, **kwargs: P.kwargs) -> R:
        here = [host(x, by_number and i == 1) for i, x in enumerate(args)]
        named = {name: host(x, name == "device") for name, x in kwargs.items()}
        return call(*here, **named)  # type: ignore[arg-type]  # the same arguments, except for devices

    return taken


def _generator(torch: ModuleType) -> type:
    """A `torch.Generator` that accepts CUDA devices; generators of PyTorch are instances of it, too."""
    original: type = torch.Generator

    def knows(cls: type, thing: object) -> bool:
        return isinstance(thing, original)

    create = hosted(torch, original.__new__)
    known = type("Known", (type(original),), {"__instancecheck__": knows})
    kind: type = known("Generator", (original,), {"__new__": create, "__module__": original.__module__})
    return kind


def _numbered(original: type) -> type:
    """A `torch.device` for which a number is a CUDA device.

    PyTorch's class has no subclasses. This class creates instances of it and compares equal to it, since
    tables of PyTorch contain either of them."""

    class Kind(type):
        def __instancecheck__(cls, thing: object) -> bool:
            return isinstance(thing, original)

        def __subclasscheck__(cls, kind: type) -> bool:
            return kind == cls

        def __eq__(cls, other: object) -> bool:
            return other is original or other is cls

        def __hash__(cls) -> int:
            return hash(original)

    def create(cls: type, *args: object, **kwargs: object) -> object:
        number = args[0] if args else kwargs.get("device")
        if type(number) is int and len(args) + len(kwargs) == 1:
            return original("cuda", number)
        return original(*args, **kwargs)

    names = {"__new__": create, "__module__": original.__module__, "__doc__": original.__doc__}
    return Kind("device", (), names)


def _is_cuda(known: property) -> property:
    """`is_cuda` of a tensor: True; False if PyTorch itself reads it, to choose the code of a device."""

    def is_cuda(self: object) -> bool:
        return bool(known.__get__(self)) if torch_cuda.asks_for_itself() else True

    return property(is_cuda, doc=known.__doc__)


def offer_traced(tensors: ModuleType) -> None:
    """Give tensors in programs that PyTorch compiles the same attributes as in eager programs."""
    torch = importlib.import_module("torch")
    if "anyrt" not in vars(torch.cuda):
        return

    def is_cuda(self: object, tx: Any) -> object:
        return tensors.VariableTracker.build(tx, not torch_cuda.is_pytorch(tx.f_globals))

    tensors.TensorVariable.method_attr_is_cuda = is_cuda


def _known_to_scripts(taken: Callable[P, R], call: Callable[P, R]) -> Callable[P, R]:
    """`taken`, which TorchScript compiles as the original function."""
    builtins = importlib.import_module("torch.jit._builtins")
    operator = builtins._find_builtin(call)
    if operator is not None:
        builtins._register_builtin(taken, operator)
    return taken


def _cuda_of(call: Callable[..., object]) -> Callable[..., object]:
    """`cuda` of a tensor or module, for any device and memory format: returns the object itself."""

    @functools.wraps(call)
    def cuda(self: object, device: object = None, non_blocking: bool = False, **more: object) -> object:
        return self

    return cuda


def _itself(call: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(call)
    def itself(self: object, *args: object, **kwargs: object) -> object:
        return self

    return itself


def _nothing(name: str) -> Callable[..., None]:
    def nothing(*args: object) -> None:
        """Do nothing: NVTX ranges have no effect."""

    nothing.__name__ = name
    return nothing
