"""Known causes of differences between AnyRT and onnx's reference, each with a test.

`cause(row)` returns the text, or "" if no cause is known: then AnyRT has a bug.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from onnx import helper

from tools.fuzz import forms, oracles, weighed  # noqa: F401  # which grow needs
from tools.fuzz.grow import grow

Row = dict[str, Any]
NOTHING: Row = {"op": "", "ort": "", "message": "", "mood": "", "sizes": 0}  # of a model without a verdict
ORDERED = {
    "ArgMax", "ArgMin", "TopK", "Hardmax", "MaxPool", "GlobalMaxPool", "Unique", "Max", "Min",
    "ReduceMax", "ReduceMin"
}  # fmt: skip
SQUARED = {
    "LayerNormalization", "GroupNormalization", "InstanceNormalization",
    "MeanVarianceNormalization", "LRN", "RMSNormalization", "LpNormalization", "BatchNormalization"
}  # fmt: skip
WRAPPING = {
    "Gemm", "MatMul", "Einsum", "Pow", "Mean", "ReduceL1", "ReduceL2", "ReduceMean", "ReduceProd",
    "ReduceSum", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"
}  # fmt: skip
WHOLE = r"np\.u?int\d+\("
RECURRENT = {"RNN", "GRU", "LSTM"}


def _refused(code: str) -> Callable[[Row], bool]:
    return lambda row: row["kind"] == "refused" and f"[{code}]" in row["message"]


def _ort_refuses(row: Row) -> bool:
    """ONNX Runtime accepts the model and rejects these inputs."""
    return row["sizes"] == 1 and re.match(r"Fail|InvalidArgument|RuntimeException", row["ort"]) is not None


def _short_of_lengths(row: Row) -> bool:
    return "ReverseSequence" in row["nodes"] and _refused("AR103")(row)


def _of_cubic_borders(row: Row) -> bool:
    """A GridSample with cubic weights that repeats the outermost elements."""
    if row["kind"] != "node" or row["op"] != "GridSample":
        return False
    nodes = [n for n in grow(row["seed"]).model.graph.node if n.op_type == "GridSample"]
    attributes = [{a.name: helper.get_attribute_value(a) for a in n.attribute} for n in nodes]
    return any(b"cubic" in g.get("mode", b"") and g.get("padding_mode") == b"border" for g in attributes)


def _misfit_parts(row: Row) -> bool:
    return "Split" in row["nodes"] and _refused("AR114")(row)


def _misfit_updates(row: Row) -> bool:
    return not {"ScatterND", "ScatterElements"}.isdisjoint(row["nodes"]) and _refused("AR103")(row)


def _misfit_grids(row: Row) -> bool:
    """A GridSample of second inputs with more or fewer grids than images."""
    if row["op"] != "GridSample" or not _refused("AR103")(row):
        return False
    case = grow(row["seed"])
    held = oracles.chain(case.model, case.feeds[row["sizes"]])
    pairs = [n.input for n in case.model.graph.node if n.op_type == "GridSample"]
    return any(held[image].shape[0] != held[grid].shape[0] for image, grid in pairs)


def _of(kinds: str, ops: set[str], mood: str = "", message: str = "", ort: str = "") -> Callable[[Row], bool]:
    """Rows of kinds and operators whose mood, message and ONNX Runtime's result match these patterns."""
    patterns = {"mood": mood, "message": message, "ort": ort}

    def holds(row: Row) -> bool:
        fits = row["kind"] in kinds.split() and (not ops or row["op"] in ops)
        return fits and all(re.search(pattern, row[key]) for key, pattern in patterns.items())

    return holds


CAUSES: list[tuple[str, Callable[[Row], bool]]] = [
    ("the second inputs do not fit the model: ONNX Runtime refuses them, too", _ort_refuses),
    ("a window is larger than its input with borders: there is no output, as AR126 says", _refused("AR126")),
    ("slopes broadcast one way only in ONNX; the reference lets NumPy broadcast", _refused("AR112")),
    ("scales broadcast one way only in ONNX; the reference lets NumPy broadcast", _refused("AR119")),
    ("parts of Split have the size of the axis together in ONNX; the reference takes what is there",
     _misfit_parts),
    ("a letter of Einsum has one size in ONNX; the reference lets NumPy broadcast", _refused("AR130")),
    ("sequences have a length each in ONNX; the reference leaves out those without", _short_of_lengths),
    ("lengths of sequences are at most the size of their axis in ONNX; the reference takes what is there",
     _refused("AR133")),
    ("states have the batch of X in ONNX; the reference lets NumPy broadcast",
     _of("refused", RECURRENT, message=r"\[AR123\].*recurrence")),
    ("indices and updates have one shape in ONNX; the reference lets NumPy broadcast", _misfit_updates),
    ("indices and updates have one shape in ONNX; the reference lets NumPy broadcast",
     _of("refused", {"ScatterElements"}, message=r"\[AR123\]")),
    ("images have a grid each in ONNX; the reference takes what is there", _misfit_grids),
    ("what does not fit an integer type is open",
     _of("node", {"Cast", "CastLike"}, message=r"np\.uint\d+\(0\) for np\.uint\d+\(\d+\) of -\d")),
    ("NaN has no order: which element is the largest is open",
     _of("node shape", ORDERED | {"ScatterElements", "ScatterND"}, message="nan|reads NaN")),
    ("NaN has no order: which element is the largest is open", _of("node shape", ORDERED, "ends")),
    ("NaN is no integer: what becomes of it is open",
     _of("node", {"DynamicQuantizeLinear", "QuantizeLinear", "Cast"}, message="int.*reads NaN")),
    ("what does not fit an integer type is open",
     _of("node", WRAPPING, message=WHOLE + ".*terms are beyond the type")),
    ("partial sums or products are beyond the type that ONNX computes in: what becomes infinite, or cancels, "
     "follows from their order, which is open", _of("node", set(), message="terms are beyond the type")),
    ("the reference takes NaN for what lies outside, and leaves it out",
     _of("node", {"AveragePool", "LpPool", "MaxPool"}, message="nan.*reads NaN")),
    ("infinities meet in an elimination, whose order is open",
     _of("node", {"Det"}, message="nan.*reads infinities")),
    ("the reference makes nearest elements of sums with 0 · NaN and 0 · ∞", 
     _of("node", {"Resize"}, message="nan.*(reads NaN|reads infinities)")),
    ("the reference moves positions to the border before it weighs; ONNX Runtime weighs as AnyRT does, but "
     "with positions in float32", _of_cubic_borders),
    ("the reference takes the borders of one axis for those of another, and ONNX Runtime does not",
     _of("shape", {"MaxPool"}, message=r"^t\d+: \(\d+, [1-9]")),
    ("the reference leaves out windows of images without channels",
     _of("shape", {"MaxPool"}, message=r"\(\d+, 0, ")),
    ("squares are beyond float32, in which ONNX computes here; the reference has more range",
     _of("node", SQUARED, "ends|large")),
    ("its definition in ONNX takes the square of a mean from a mean of squares, where all digits may cancel",
     _of("node", {"MeanVarianceNormalization"})),
    ("what does not fit an integer type is open", _of("node", WRAPPING, "ends", WHOLE)),
    ("what does not fit an integer type is open",
     _of("node", {"Shrink"}, message=r"(18446744073709551615|9223372036854775807)\)")),
    ("what does not fit an integer type is open",
     _of("node", {"Shrink"}, message=r"np\.uint\d+\(0\) for np\.uint\d+\(\d{3,}\)")),
    ("NaN or infinities meet in a sum, whose order is open",
     _of("node", RECURRENT, "ends", message="nan.*reads infinities")),
    ("NaN or infinities meet in a sum, whose order is open",
     _of("node", {"GridSample"}, message=r"inf\) for \S*\(nan\).*reads infinities")),
    ("NaN or infinities meet in a sum, whose order is open",
     _of("node", set(), "ends", "nan|inf", "as AnyRT")),
    ("the reference divides in the half type, and ONNX before 23 does not say",
     _of("node", {"QuantizeLinear"}, message="float16")),
    ("borders of SAME with dilations are open: ONNX Runtime has another shape",
     _of("node", {"LpPool", "AveragePool", "MaxPool"}, ort="^shape")),
    ("slopes are for x < 0 in ONNX; the reference multiplies zeros by them, too",
     _of("node", {"PRelu"}, message=r"\] \S*-?0(\.0)?\)? for np\.float64\(nan\)")),
    ("the reference leaves out axes of what it finds along the last one", _of("shape", {"Unique"})),
    ("the reference is wrong: ONNX Runtime gives what AnyRT gives",
     _of("node shape", set(), ort="as AnyRT|as ours")),
]  # fmt: skip


# Bugs fixed after the run that the page shows.
MENDED = {
    5311: "Sin, Cos and Tan of float32 beyond 2³¹ were those of 0",
    6575: "Mod of floats lost digits where the quotient is beyond 2⁴⁷, and gave NaN where it is infinite",
    7934: "Mod of floats lost digits where the quotient is beyond 2⁴⁷, and gave NaN where it is infinite",
    9897: "Mod of floats lost digits where the quotient is beyond 2⁴⁷, and gave NaN where it is infinite",
    7668: "Pad by edge, reflect or wrap refused what data count (AR901)",
    7373: "no difference: the judge's time was up, on a machine with much other work",
}


def cause(row: Row) -> str:
    """Why the difference is no bug of AnyRT; "" if unknown."""
    return next((text for text, holds in CAUSES if holds(NOTHING | row)), "")
