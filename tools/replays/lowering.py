"""From a network to the kernels and the LLVM text for a machine: the only part of replay that depends on the
compiler.

No machine code is generated, so any machine can be selected. A tree that is compared with another one uses
its own version of this file (`trees.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeAlias

from anyrt.api.building.config import profiles_in, settings_of
from anyrt.api.building.freeze import freeze
from anyrt.backends import loader
from anyrt.compiler import driver
from anyrt.compiler.progress import Progress
from anyrt.compiler.request import BuildRequest
from anyrt.compiler.settled import settled
from anyrt.core.errors import AnyrtError
from anyrt.core.machine import REFERENCE, Machine
from anyrt.ir.kernel import Kernel
from anyrt.ir.kerneltext import print_kernels
from tools.replays.canonical import canonical_kernel, canonical_llvm

Lower: TypeAlias = Callable[[Machine], Sequence[Kernel]]
HERE: Final = "here"  # this machine, on which times are measured
_WHOLE: Final = replace(REFERENCE, has_tiles=True)
_LEVELS: Final = ("avx2", "sse2", "neon")  # the plainest processors of these
# AVX-512 is the machine where sizes were measured: with dots of bytes and of bfloat16. NEON has these, too.
MACHINES: Final = ("amx", "avx512", *_LEVELS)


@dataclass(frozen=True, slots=True)
class Text:
    """A kernel in canonical form: its loops and its LLVM text. `name`: that of its first call."""

    name: str
    loops: str
    llvm: str


@cache
def machine(name: str) -> Machine:
    """One of MACHINES, or HERE."""
    match name:
        case "amx":
            return _WHOLE
        case "avx512":
            return REFERENCE
        case "here":
            return driver.build_machine(loader.target())
    result = loader.target().named(name).limited(_WHOLE)
    return replace(result, has_sdot=True, has_bfdot=True) if name == "neon" else result


def request_of(network: Any, config: Any) -> BuildRequest:  # Any: objects of the API
    """The build request for a network and its configuration."""
    return freeze(network, profiles_in(config), settings_of(config))


def lowering(request: BuildRequest) -> Lower:
    """The lowering of a request for a machine; its kernels are in the order of their first calls."""
    progress = Progress(request.name, request.log)
    build = driver._Build(settled(request), progress, loader.target(), loader.device())

    def lower(machine: Machine) -> Sequence[Kernel]:
        source = driver._Source.of(build.request, build._optimised(machine), build.device, build.mixer)
        return source.lower(machine, loader.target().strategies)().module.distinct

    return lower


def texts(lower: Lower, machine_name: str) -> Iterator[Text]:
    """The text of each kernel for a machine."""
    here, target = machine(machine_name), loader.target()
    for kernel in lower(here):
        same = canonical_kernel(kernel)
        text = target.emit(same, here).module
        yield Text(kernel.name, print_kernels([same]), canonical_llvm(text))


def refusal(error: Exception) -> str:
    """The entry for a network that a machine does not support."""
    return error.code if isinstance(error, AnyrtError) else type(error).__name__
