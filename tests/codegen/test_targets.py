"""Code for other processors: lower levels of this processor run and agree; for others, object files are
compiled."""

import pytest

from anyrt.backends.cpu import processors
from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.ir.graph import Graph, Symbol
from anyrt.prims import build as b
from anyrt.prims.taps import Linear
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import choose, forced

N = Sym("x.3", 1, 64)
LEVELS = [processors.Level.AVX512, processors.Level.AVX2, processors.Level.SSE2, processors.Level.GENERIC]


def chain(dtype: DataType) -> Graph:
    """Normalised rows, an activation, a resize, a transpose; input and output have the type `dtype`."""
    x = b.param("x", (1, 3, 9, N.dim), dtype)
    wide = b.cast(x, DataType.FLOAT)
    mean = b.map_("mul", b.reduce_("sum", wide, (2, 3)), b.scalar(1 / 99, wide))
    active = b.map_("sigmoid", b.map_("sub", wide, mean))
    larger = b.taps(active, 2, 20, Linear(Coordinate.HALF_PIXEL, Selector.FORMULA))
    out = b.cast(b.transpose(larger, (0, 2, 3, 1)), dtype)
    return Graph((("x", x),), (("y", out),), {}, (Symbol(N, "x", 3),))


def lowered(graph: Graph) -> native.Lowered:
    return native.lower(graph, constant_offsets(graph), Sizes({N.name: 11}))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.value)
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.HALF, DataType.BF16], ids=lambda t: t.name)
def test_every_level_of_this_processor_agrees_with_the_interpreter(dtype, level):
    target = choose(level.value)
    assert verify(lowered(chain(dtype)), target, [{N.name: n} for n in (1, 11, 33)]) == ()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.INT8, DataType.FP8])
def test_engines_for_aarch64_are_made_on_any_machine(dtype):
    built = native.compile_lowered(lowered(chain(dtype)), forced(processors.Level.NEON))
    entries = dict(built.program.entries)
    assert list(entries) == ["run", "prepare", "step", "resume", "again", "program"]
    assert entries["program"] % 4096 == 0  # ADRP counts pages
