"""The kernel descriptions of an engine: a round trip through text; for invalid text, the error names the
place."""

import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import PlanError
from anyrt.plan.kernels import KernelRecord, TensorRecord, parse_records, print_records

N = Sym("n", 1, 8)
X = TensorRecord("x", "", DataType.FLOAT, (N.dim, 2 * N.dim + 1, 3))
Y = TensorRecord('y "+\n', "layer", DataType.INT4, ())
RECORD = KernelRecord("map", "band=8", 1 << 40, ("layer", "größe"), (X,), (Y, X), ((DataType.HALF, 9),))


def test_records_come_back():
    assert parse_records(print_records([RECORD, RECORD]), {"n": N}, 2) == (RECORD, RECORD)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{}", "kernels: "),
        ("[]", r"kernels: .*\b0\b.*\b1\b"),
        ("[[]]", r"kernels\[0\]: "),
        ('[["map","",0,[],[["x","","float32",["m"]]],[],[]]]', r"kernels\[0\]\[4\]\[0\]\[3\]\[0\]"),
        ('[["map","",0,[],[["x","","float99",[]]],[],[]]]', r"kernels\[0\]\[4\]\[0\]\[2\]"),
        ('[["map","",0,[],[],[],[["int8",-1]]]]', r"kernels\[0\]\[6\]\[0\]\[1\]"),
    ],
)
def test_other_texts_are_rejected(text, place):
    with pytest.raises(PlanError, match=place):
        parse_records(text, {"n": N}, 1)
