"""Refittable weights in plans, and stripped plans."""

import json
from dataclasses import replace

import pytest

from anyrt.core.enums import DataType
from anyrt.core.errors import PlanError
from anyrt.plan.file import plan_parts, read_plan
from anyrt.plan.plan import Plan, lay_out, stripped
from anyrt.plan.refit import Refit, WeightsRecord
from tests.messages import diagnostic
from tests.plan.test_file import changed, header_of

F = DataType.FLOAT
WEIGHTS = (WeightsRecord("w", F, 4, (("conv", "KERNEL"),)), WeightsRecord("", F, 1, (("bn", "SCALE"),)))
REFIT = Refit(WEIGHTS, "input", ("made",))
PLAN = Plan("net", "graph", lay_out([("made", F, 4), ("kept", F, 2)]), refit=REFIT)
CONTENTS = [memoryview(b"0123456789abcdef"), memoryview(b"ghijklmn")]


def written(plan, contents=CONTENTS):
    return b"".join(plan_parts(plan, contents).chunks(1 << 20))


def test_weights_are_read_as_they_were_written():
    assert read_plan(written(PLAN)).plan == PLAN
    assert [w.title for w in WEIGHTS] == ["w", "bn SCALE"]


def test_plans_without_such_weights_say_nothing_of_them():
    assert "refit" not in json.loads(header_of(written(replace(PLAN, refit=None)))[0])


@pytest.mark.parametrize("is_free", [True, False])
def test_a_stripped_plan_holds_what_is_not_made_of_weights(is_free):
    plan = stripped(replace(PLAN, refit=replace(REFIT, is_free=is_free)), True)
    file = read_plan(data := written(plan))
    assert (b"0123" in data, bytes(file.weights)) == (False, b"ghijklmn")
    assert [(b.name, b.offset) for b in file.plan.held] == [("kept", 0)]
    assert [(b.name, b.offset) for b in file.plan.blobs] == [("made", 0), ("kept", 64)]
    assert bool(file.checksums[0]) is not is_free


def test_code_belongs_to_a_plan_whatever_its_weights_are():
    other = [memoryview(b"another kernel.."), CONTENTS[1]]
    plans = [written(PLAN), written(PLAN, other), written(stripped(PLAN, True))]
    assert len({read_plan(data).code for data in plans}) == 1
    assert len({read_plan(data).digest for data in plans}) == 3
    kept = [CONTENTS[0], memoryview(b"12345678")]
    assert read_plan(written(PLAN, kept)).code != read_plan(plans[0]).code


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, [["w", "float99", 4, []]]),
        (0, [["w", "float32", -4, []]]),
        (0, 3),
        (1, None),
        (2, ["other"]),
        (3, 1),
    ],
)
def test_fields_are_checked_one_by_one(at, value):
    fields = json.loads(header_of(written(PLAN))[0])["refit"]
    fields[at] = value
    with pytest.raises(PlanError, match=rf"\[AR605\] refit\[{at}\]"):
        read_plan(changed(written(PLAN), refit=fields))


def test_a_plan_that_lies_about_being_stripped_is_rejected():
    fields = json.loads(header_of(written(PLAN))[0])["refit"]
    with pytest.raises(PlanError, match="AR604"):
        read_plan(changed(written(PLAN), refit=[*fields[:4], True]))


def test_a_stripped_plan_whose_constants_no_machine_can_hold_is_rejected():
    plan = written(stripped(PLAN, True))
    with pytest.raises(PlanError, match=diagnostic("AR604", "blobs", 4 << 60, 1 << 46)):
        read_plan(changed(plan, blobs=[["kept", "float32", 0], ["made", "float32", 1 << 60]]))


def test_two_constants_of_one_name_are_rejected():
    with pytest.raises(PlanError, match=diagnostic("AR605", "blobs", "'made'")):
        read_plan(changed(written(PLAN), blobs=[["made", "float32", 4], ["made", "float32", 2]]))
