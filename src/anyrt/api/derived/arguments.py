"""Arguments of derived methods: binds them to a signature, and checks that tensors belong to the network.

>>> bound("add_it", inspect.signature(lambda x, n=2: None), (1,), {})
{'x': 1, 'n': 2}
"""

from __future__ import annotations

import inspect

from anyrt.api.edge.quiet import WrongType
from anyrt.api.model.layer import no_tensor
from anyrt.api.model.state import NetworkState, state_of
from anyrt.api.model.tensor import ITensor
from anyrt.core.errors import ArgumentError, GraphError


class _Required:
    """The default of a required parameter that follows optional ones."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED = _Required()


def bound(
    name: str,
    signature: inspect.Signature,
    args: tuple[object, ...],
    named: dict[str, object],
    owner: str = "network",
) -> dict[str, object]:
    """The arguments by name; TypeError if they do not match. `owner`: the class of the method."""
    try:
        call = signature.bind(*args, **named)
    except TypeError as error:
        raise _incompatible(name, str(error), signature, owner) from None
    call.apply_defaults()
    missing = [n for n, x in call.arguments.items() if x is REQUIRED]
    if missing:
        raise _incompatible(name, f"missing {missing[0]!r}", signature, owner)
    return call.arguments


def _incompatible(name: str, why: str, signature: inspect.Signature, owner: str) -> WrongType:
    got, do = f"incompatible function arguments: {why}", f"help({owner}.{name}) explains the arguments"
    wanted = f"{name}{signature}".replace("'", "")
    return WrongType(ArgumentError("AR311", name, got, wanted, do))


def tensor(method: str, name: str, x: object, network: NetworkState) -> ITensor:
    """`x`, checked to be a tensor of the network."""
    if not isinstance(x, ITensor):
        raise no_tensor(f"{method}: {name}", x)
    if state_of(x).network is not network:
        got = f"tensor {x.name!r}, which belongs to a different network"
        raise GraphError("AR403", f"{method}: {name}", got, "a tensor of this network")
    return x
