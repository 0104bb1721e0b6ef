"""The networks that replay lowers: those of the benchmarks, and random ones with fixed seeds.

contractions/product_512x512x512_bf16    family/case, as the benchmarks name it; @ and the kind of engine
random/graph_17                          of a seed

The quick set is a sample of each family: the names with the smallest digests. It is therefore independent of
current work, and a new case rarely changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Any, Final

from anyrt.compiler.request import BuildRequest
from benchmarks import random_graphs
from benchmarks.contractions import opened
from benchmarks.contractions.forms import Group
from benchmarks.engines import OPEN, network_of
from benchmarks.peers import DYNAMIC
from benchmarks.peers.anyrt import described
from benchmarks.random_networks import LAYERS as MOST_LAYERS
from benchmarks.registry import CONTRACTIONS, FAMILIES, LAYERS, Suite
from tools.replays.lowering import request_of

THREADS: Final = 2
QUICK, RANDOM = 5, 20  # networks of a family in the quick set, and of the small random ones
# These use the tiles of AMX, which few machines have: all of them are in the quick set.
WHOLE: Final = (Group.HALF, Group.INT8)
SEEDS: Final = 100  # of each kind of random network
BUILT: Final = (
    *(("residual", 3), ("gelu", 2), ("linear", 9), ("cubic", 4), ("normalizations", 10)),
    *(("mixed", 50), ("varied", 50)),
)


@dataclass(frozen=True, slots=True)
class Network:
    """A network under its name. family: the family that it is a sample of; case: its name in `benchmarks
    trees`, "" if it has none; request: its build request."""

    name: str
    family: str
    request: Callable[[], BuildRequest]
    case: str = ""
    whole: bool = False


def every() -> list[Network]:
    """All networks, sorted by name."""
    results = [*_layers(), *_contractions(), *_opened(), *_families(), *_built(), *_random()]
    return sorted(results, key=lambda n: n.name)


def quick(networks: Sequence[Network]) -> list[Network]:
    """The sample of each family."""
    chosen = set[str]()
    for family, group in groupby(sorted(networks, key=lambda n: n.family), key=lambda n: n.family):
        mine = sorted(group, key=lambda n: sha256(n.name.encode()).digest())
        count = RANDOM if family.startswith("random") else QUICK
        chosen |= {n.name for k, n in enumerate(mine) if k < count or n.whole}
    return [n for n in networks if n.name in chosen]


def _request(describe: Callable[..., Any], *arguments: object) -> BuildRequest:  # Any: objects of the API
    _, network, config = describe(*arguments)
    return request_of(network, config)


def _layers() -> Iterator[Network]:
    for case in LAYERS.language.cases.values():
        family = f"layers, {case.layer.value}, {case.input.dtype.name}"
        for label in ("", DYNAMIC)[: 1 + bool(case.dynamic)]:
            name = f"layers/{case.name}" + (f"@{label}" if label else "")
            yield Network(name, family, _of_case(LAYERS, case, label), case.name)


def _contractions() -> Iterator[Network]:
    for case in CONTRACTIONS.language.cases.values():
        family = f"contractions, {case.group.value}, {type(case.form).__name__}"
        for end, label in (("", ""), ("@open", DYNAMIC))[: 1 + bool(case.open)]:
            name, whole = f"contractions/{case.name}", case.group in WHOLE
            yield Network(name + end, family + end, _of_case(CONTRACTIONS, case, label), name, whole)


def _of_case(suite: Suite, case: Any, label: str = "") -> Callable[[], BuildRequest]:
    return lambda: _request(described, suite.language.blank(case, THREADS), label)


def _opened() -> Iterator[Network]:
    for case in opened.ALL:

        def request(case: Any = case) -> BuildRequest:
            return _request(opened.described, case.cases, THREADS)

        yield Network(f"open/{case.name}", f"open, {type(case.forms[0]).__name__}", request)


def _families() -> Iterator[Network]:
    for case in FAMILIES.language.cases.values():
        name = f"families/{case.name}"
        yield Network(name, f"families, {case.family.value}", _of_case(FAMILIES, case), name)


def _built() -> Iterator[Network]:
    for name, size in BUILT:

        def request(name: str = name, size: int = size) -> BuildRequest:
            return _request(network_of, name, size, THREADS)

        yield Network(f"build/{name}_{size}", "build", request, f"{name} {size}")


def _random() -> Iterator[Network]:
    for seed in range(SEEDS):

        def layers(seed: int = seed) -> BuildRequest:
            return _request(network_of, "random_network", seed, THREADS)

        def graph(seed: int = seed) -> BuildRequest:
            return random_graphs.request(seed, MOST_LAYERS, *OPEN)

        yield Network(f"random/layers_{seed}", "random layers", layers)
        yield Network(f"random/graph_{seed}", "random graphs", graph)
