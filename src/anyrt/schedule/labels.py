"""One name for each kernel of an engine, made from the layers that it computes: `norm1+gelu1+add1`.

Reports, profilers, inspectors, listings, assembly and messages use it. A layer that two kernels compute
appears in both names. A suffix distinguishes kernels of the same layers:

    conv1: border       what the kernel does for the layers, where others of the same layers do something else
    relu1+concat1[0]    what the kernel writes of a Concat, counted from 0
    add1 (any sizes)    the kernel for any sizes, beside one for those that a broadcast finds equal
    norm1#2             another kernel of the same layers
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from anyrt.core.lines import in_line
from anyrt.ir.compute import Elements
from anyrt.ir.graph import Graph, Value, users
from anyrt.ir.kernel import Kernel
from anyrt.schedule.launch import ExternalStep, Launch, RegionStep, Schedule, Step
from anyrt.schedule.ports import port_names

MOST = 100  # characters of a name, without the suffix
ROLES = {"contraction": "products", "window": "products", "reduction": "sums"}  # of kinds of kernels
ELSEWHERE = " (any sizes)"  # of the version for sizes that earlier versions exclude


def labelled(schedules: Sequence[Schedule], taken: Iterable[str] = ()) -> tuple[Schedule, ...]:
    """The schedules of an engine's versions with a unique name for each launch and nest, none of them in
    `taken`. A kernel that several launches share has the name of the first one."""
    last = len(schedules) - 1
    preferred = [
        f"{name}{ELSEWHERE if 0 < n == last else ''}"
        for n, schedule in enumerate(schedules)
        for name in _with_roles(_plain(schedule))
    ]
    names = distinct(preferred, taken)
    return tuple(_renamed(schedule, names, {}) for schedule in schedules)


Plain = tuple[str, str, str]  # the layers, the role of the kernel, and which part it writes


def _with_roles(plain: Sequence[Plain]) -> Iterator[str]:
    """Names; roles distinguish kernels of the same layers."""
    roles: dict[str, set[str]] = {}
    for name, role, _ in plain:
        roles.setdefault(name, set()).add(role)
    for name, role, part in plain:
        yield f"{name}: {role}" if len(roles[name]) > 1 and role else name + part


def _role(launch: Launch) -> str:
    """The role of a kernel in its layers."""
    group, how = launch.group, launch.root.compute
    if group.copy or (group.whole is not None and not launch.inlined):
        return "copy"
    if isinstance(how, Elements) and how.border is not None:
        return "border"
    return ROLES.get(launch.kind, "elements")


def _plain(schedule: Schedule) -> list[Plain]:
    """The preferred name of each launch and nest, before those inside."""
    graph = schedule.graph
    layers, parts, names = Layers.in_graph(graph), dict[Value, Iterator[int]](), list[Plain]()
    for step in schedule.steps:
        if not isinstance(step, Launch):
            names.append((in_line(step.name), "", ""))
            for inner in step.parts:
                names += _plain(inner)
            continue
        group = step.group
        name = joined([in_line(x) for x in layers.computed(step)]) or graph.name(step.makes[0])
        part = "" if group.whole is None else f"[{next(parts.setdefault(group.whole, count()))}]"
        names.append((name, _role(step), part))
    return names


def _renamed(schedule: Schedule, names: Iterator[str], kernels: dict[int, Kernel]) -> Schedule:
    steps = list[Step]()
    for step in schedule.steps:
        name = next(names)
        if isinstance(step, ExternalStep):
            steps.append(replace(step, name=name, before=_renamed(step.before, names, kernels)))
            continue
        if isinstance(step, RegionStep):
            before, *bodies = (_renamed(part, names, kernels) for part in step.parts)
            steps.append(replace(step, name=name, before=before, bodies=tuple(bodies)))
            continue
        call = step.call
        kernel = kernels.setdefault(id(call.kernel), replace(call.kernel, name=name))
        steps.append(replace(step, call=replace(call, kernel=kernel, name=name)))
    return replace(schedule, steps=tuple(steps))


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of a graph, by name. `of`: for each value the layer whose result it is, or which needs it
    for its result; "" for none. `makers`: for the memory of outputs the layers that also compute them."""

    of: Mapping[Value, str]
    order: Mapping[str, int]
    makers: Mapping[str, str]

    @staticmethod
    def in_graph(graph: Graph) -> Layers:
        """Those of all values that the outputs need."""
        uses, layers = users(graph), dict[Value, str]()
        for value in reversed(graph.values):
            own = graph.names.get(value)
            layers[value] = next((layers[u] for u in uses[value]), "") if own is None else own
        order = {name: -n for n, name in enumerate(dict.fromkeys(layers.values()))}
        ports = zip(port_names(graph)[len(graph.inputs) :], graph.outputs, strict=True)
        makers = {port: graph.makers[name] for port, (name, _) in ports if name in graph.makers}
        return Layers(layers, order, makers)

    def computed(self, launch: Launch) -> list[str]:
        """The layers of which a launch computes something, in the order of the graph."""
        maker = self.makers.get(launch.group.buffer.name)
        if launch.group.copy and maker is not None:
            return [maker]
        mine = {self.of[v] for v in (*launch.makes, *launch.inlined)} - {""}
        names = sorted(mine, key=self.order.__getitem__)
        return names if maker is None or maker in mine else [*names, maker]


def joined(layers: Sequence[str]) -> str:
    """The names of layers joined to one of at most MOST characters: the first, how many more, the last."""
    whole = "+".join(layers)
    if len(whole) <= MOST:
        return whole
    if len(layers) == 1:
        return _cut(whole, MOST)
    between = f"+({len(layers) - 2} more)+" if len(layers) > 2 else "+"
    half = (MOST - len(between)) // 2
    return f"{_cut(layers[0], half)}{between}{_cut(layers[-1], half)}"


def _cut(name: str, most: int) -> str:
    end = most // 3
    return name if len(name) <= most else f"{name[: most - end - 3]}...{name[-end:]}"


def distinct(names: Iterable[str], taken: Iterable[str] = ()) -> Iterator[str]:
    """The names, with a number appended to each that occurred before or is `taken`."""
    used, more = set(taken), dict[str, Iterator[int]]()
    for name in names:
        unique = name
        while unique in used:
            unique = f"{name}#{next(more.setdefault(name, count(2)))}"
        used.add(unique)
        yield unique
