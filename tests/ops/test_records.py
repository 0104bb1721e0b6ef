"""The records are consistent: names that refer to each other exist, and the tests detect wrong results."""

import contextlib
import dataclasses

import numpy as np
import pytest

from anyrt.core.codes import CODES
from anyrt.core.enums import DataType, ResizeCoordinateTransformation, ScaleMode
from anyrt.core.enums import LayerType as L
from anyrt.core.errors import AnyrtError, ShapeError
from anyrt.ir.interpret import interpret
from anyrt.ops import ALL_OPS, OPS
from anyrt.ops._cases import all_mistakes, case_graph, case_run, differences, operands
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import ABSENT, Kind, Layer, weights
from anyrt.prims.build import param
from tests.messages import diagnostic

ALL = pytest.mark.parametrize("op", ALL_OPS, ids=lambda op: op.layer.name)


@ALL
def test_methods_name_attributes_and_operands_that_exist(op):
    attributes = {s.name for s in op.specs()}
    required = {i.name for i in op.inputs if i.required}
    for method in op.methods:
        renamed = dict(method.renamed)
        assert {renamed.get(p, p) for p in method.params} <= attributes | required
        assert {renamed.get(name, name) for name, _ in (*method.defaults, *method.fixed)} <= attributes


@ALL
def test_attributes_have_docs_and_their_references_exist(op):
    names = {s.name for s in op.specs()}
    for spec in op.specs():
        assert spec.doc
        assert (spec.enum is not None) == (spec.kind is Kind.ENUM)
        assert {*spec.clears, *spec.sets} <= names - {spec.name}
        assert max(spec.locked_by or 0, spec.drops or 0) < len(op.inputs) or not op.inputs
    assert {c for i in op.inputs for c in i.clears} <= names


@ALL
def test_every_member_of_an_enum_has_a_case_or_is_rejected(op):
    for spec in op.specs():
        tried = {getattr(x.attrs, spec.name) for x in (*op.cases(), *op.mistakes())}
        assert spec.enum in (None, DataType) or set(spec.enum) <= tried


def test_add_scale_nd_requires_its_channel_axis():
    method = OPS[L.SCALE].methods[1]
    assert method.params[-1] == "channel_axis"
    assert "channel_axis" not in dict(method.defaults)


def test_every_code_of_a_mistake_is_in_the_table():
    assert {m.code for _, m in all_mistakes()} <= set(CODES)


@ALL
def test_derived_test_notices_a_wrong_element(op):
    run = next(r for c in op.cases() if (r := case_run(op, c, False)).expected[0].size > 1)
    right = interpret(run.graph, run.feeds, run.sizes)
    wrong = {k: v.copy() for k, v in right.items()}
    first = wrong["y0"].reshape(-1)[:1]
    wrong["y0"].reshape(-1)[:1] = ~first if first.dtype == bool else first + first.dtype.type(2)
    assert not differences(run, right)
    assert differences(run, wrong)


@ALL
def test_an_operand_that_is_left_out_is_no_fault_of_this_library(op):
    """The result omits it, or an error with a code rejects it: `add_fill` with beta alone was the internal
    error AR807."""
    for case in op.cases():
        arrays = operands(op, case)
        for i in (i for i, array in enumerate(arrays) if array is not ABSENT):
            with contextlib.suppress(AnyrtError):
                case_graph(op, case, False, (*arrays[:i], ABSENT, *arrays[i + 1 :]))


def test_attributes_are_frozen_and_hashable():
    attrs = OPS[L.SCALE].attrs(ScaleMode.UNIFORM)
    assert hash(attrs) == hash(OPS[L.SCALE].attrs(ScaleMode.UNIFORM))
    with pytest.raises(dataclasses.FrozenInstanceError):
        attrs.mode = ScaleMode.CHANNEL


def test_message_names_layer_got_wanted_and_what_to_do():
    x = param("x", (1, 3, 4, 5), DataType.FLOAT)
    layer = Layer("scale1", OPS[L.SCALE].attrs(ScaleMode.CHANNEL, weights(1, 2)), (x,))
    values = ("scale1", 2, "shift", 3, "CHANNEL", (1, 3, 1, 1), "channel_axis")
    with pytest.raises(ShapeError, match=diagnostic("AR102", *values)):
        expand_layer(OPS[L.SCALE], layer)


def test_scales_multiply_in_single_precision():
    x = param("x", (10,), DataType.FLOAT)
    layer = Layer("resize1", OPS[L.RESIZE].attrs(scales=(0.7,)), (x,))
    assert expand_layer(OPS[L.RESIZE], layer)[0].shape == (7,)


def test_align_corners_applies_to_nearest():
    attrs = OPS[L.RESIZE].attrs(
        shape=(6,), coordinate_transformation=ResizeCoordinateTransformation.ALIGN_CORNERS
    )
    x = np.arange(3.0)
    assert OPS[L.RESIZE].ref(attrs, (x,))[0].tolist() == [0, 0, 0, 1, 1, 2]


def test_zero_placeholder_copies_the_size_after_the_first_transpose():
    x = param("x", (2, 3, 5), DataType.FLOAT)
    layer = Layer("shuffle1", OPS[L.SHUFFLE].attrs((2, 0, 1), (0, -1)), (x,))
    assert expand_layer(OPS[L.SHUFFLE], layer)[0].shape == (5, 6)
