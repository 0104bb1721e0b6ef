"""Exchanges between ranks wait for one another in the order of the graph."""

from anyrt.ir.text import parse_graph, print_graph
from anyrt.passes.order_exchanges import order_exchanges
from anyrt.prims.table import vocabulary

WORDS = vocabulary({})
SUM = 'Collective(layer="{}", operation=ALL_REDUCE, fold=SUM, root=-1, group=(), ranks=2, shape=(4))'
NEG = 'v{}: FLOAT[4] = Map(fn="neg", dtype=FLOAT)({})'
X = 'v0: FLOAT[4] = Param(name="x", type=FLOAT[4])()'


def printed(*lines):
    return print_graph(order_exchanges(parse_graph("\n".join(lines), WORDS)), WORDS).splitlines()


def test_an_exchange_waits_for_the_one_before_it():
    before = (X, f"v1: FLOAT[4] = {SUM.format('a')}(v0)", NEG.format(2, "v0"))
    ends = ('input "x" v0', 'output "y" v1', 'output "z" v3')
    last = f"v3: FLOAT[4] = {SUM.format('b')}"
    assert printed(*before, f"{last}(v2)", *ends) == [*before, f"{last}(v2, v1)", *ends]


def test_values_that_depend_on_an_exchange_follow_it_anyway():
    graph = parse_graph(
        "\n".join(
            [
                X,
                f"v1: FLOAT[4] = {SUM.format('a')}(v0)",
                NEG.format(2, "v1"),
                f"v3: FLOAT[4] = {SUM.format('b')}(v2)",
                'input "x" v0',
                'output "y" v3',
            ]
        ),
        WORDS,
    )
    assert order_exchanges(graph) is graph
