"""A page for each network part with boundary layers: loops and conditionals."""

from __future__ import annotations

import inspect

import anyrt as trt
from anyrt.api.derived.methods import add_methods
from anyrt.core.codes import CODES
from anyrt.ops import BORDERS
from docgen.blocks import with_outputs
from docgen.operators import NOTE, attributes, inputs, signature_text, table

HEAD = """import numpy as np
import anyrt as trt

builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
network = builder.create_network()
"""
TAIL = """y.name = "y"
network.mark_output(y)
engine = builder.build_engine_with_config(network, builder.create_builder_config())
"""
LOOP = """rows = network.add_input("rows", trt.float32, (4, 3))
zero = network.add_constant((3,), np.zeros(3, np.float32)).get_output(0)
count = network.add_constant((), np.array(4, np.int32)).get_output(0)
loop = network.add_loop()
total = loop.add_recurrence(zero)
row = loop.add_iterator(rows).get_output(0)
new = network.add_elementwise(total.get_output(0), row, trt.ElementWiseOperation.SUM).get_output(0)
total.set_input(1, new)
loop.add_trip_limit(count, trt.TripLimit.COUNT)
sums = loop.add_loop_output(new, trt.LoopOutput.CONCATENATE)
sums.set_input(1, count)
y = sums.get_output(0)
"""
IF = """x = network.add_input("x", trt.float32, (3,))
flag = network.add_input("flag", trt.bool, ())
conditional = network.add_if_conditional()
conditional.set_condition(flag)
inside = conditional.add_input(x).get_output(0)
y = network.add_unary(inside, trt.UnaryOperation.EXP).get_output(0)
y = conditional.add_output(y, inside).get_output(0)
"""
PAGES = {
    "loop": (
        trt.ILoop,
        "add_loop",
        "loop.py",
        "`Repeated`: the counter, the recurrences and what is concatenated are states of a region, which has "
        "a place in memory for each. What depends on none of them is computed before the loop. An iterator "
        "is a `Gather`, and what is concatenated is stored where its turn says, in place. WHILE conditions "
        "are judged on the states of the next turn at the end of each.",
        ("AR406", "AR411", "AR412", "AR413", "AR414"),
        f'{HEAD}{LOOP}{TAIL}print(engine.run(rows=np.ones((4, 3), np.float32))["y"])\n',
    ),
    "if_conditional": (
        trt.IIfConditional,
        "add_if_conditional",
        "if_conditional.py",
        "`Chosen`, with a region for each branch; where the condition is known, that branch alone. Results "
        "of different sizes have room for the larger one, and the data decide how much of it is read.",
        ("AR123", "AR203", "AR411", "AR414"),
        f"{HEAD}{IF}{TAIL}x = np.zeros(3, np.float32)\n"
        'print(engine.run(x=x, flag=np.array(True))["y"], engine.run(x=x, flag=np.array(False))["y"])\n',
    ),
}


def pages() -> dict[str, str]:
    """Path and text of each."""
    return {f"docs/operators/{name}.md": _page(name) for name in PAGES}


def rows() -> list[tuple[str, str]]:
    """A line for each page in the list of operators."""
    return [(f"[{_title(name)}]({name}.md)", _doc(name).split(". ", 1)[0]) for name in PAGES]


def _title(name: str) -> str:
    return PAGES[name][0].__name__.removeprefix("I")


def _doc(name: str) -> str:
    paragraphs = (inspect.getdoc(PAGES[name][0]) or "").split("\n\n")[:-1]  # the last one names the version
    return "\n\n".join(p.replace("\n", " ") for p in paragraphs)


def _page(name: str) -> str:
    cls, method, source, meaning, codes, program = PAGES[name]
    borders = [op for op in BORDERS.values() if op.within == cls.__name__]
    methods, host = add_methods(borders), "loop" if name == "loop" else "conditional"
    calls = [f"{host} = network.{method}()"]
    calls += [f"{host}.{m.name}{signature_text(methods[m.name])}" for op in borders for m in op.methods]
    text = f"{NOTE.format(f'src/anyrt/ops/{source}')}# {_title(name)}\n\n{_doc(name)}\n"
    text += "\n## Adding it\n\n```\n" + "\n".join(calls) + "\n```\n"
    for op in borders:
        text += f"\n## {op.cls}\n\n{op.doc}\n"
        text += "".join(f"\n{part}" for part in (attributes(op), inputs(op)) if part)
    own = sorted(n for n, x in vars(cls).items() if isinstance(x, property) and n[0] != "_" and n != "name")
    shown = [(f"`{n}`", inspect.getdoc(vars(cls)[n]) or "") for n in own]
    text += f"\n## Attributes\n\n{table(('attribute', 'meaning'), shown)}" if shown else ""
    text += f"\n## Meaning\n\nIn primitives: {meaning}\n"
    errors = [(f"[{code}](../codes.md)", CODES[code].title, CODES[code].explanation) for code in codes]
    text += f"\n## Errors\n\n{table(('code', 'error', 'rule'), errors)}"
    text += "\n## DLA\n\nDLA does not run these layers.\n\n## Example\n\n"
    return text + with_outputs(f"```python\n{program}```\n\n```text\n```\n", name)
