"""Rows for the families of data-dependent layers: cases, references, AnyRT's results, tables."""

import numpy as np
import pytest

from benchmarks import __main__ as cli
from benchmarks.families import reference, report
from benchmarks.families.case import Family, expected_of, inputs
from benchmarks.families.cases import ALL
from benchmarks.families.reference import LANGUAGE
from benchmarks.families.samples import sampled
from benchmarks.machine import Machine
from benchmarks.peers import load_peers
from benchmarks.record import Entry, Results, Row
from benchmarks.values import fetched, packed

CASES = {c.name: c for c in ALL}
SMALL = (
    "embedding_1000x64_64", "gather_elements_64x30522_64x128_axis1", "scatter_nd_256x256_1024",
    "one_hot_64_100", "topk_1x1000_5", "cumsum_1x1000_axis1", "linspace_65536", "uniform_65536",
    "nonzero_64x64_10%", "nms_300x1_above_0.3", "antialias_1x64x128x128_to_64x64_cubic", "topk_64x1000_1000",
)  # fmt: skip


def test_names_differ_and_every_family_has_rows():
    assert len(CASES) == len(ALL)
    assert {c.family for c in ALL} == set(Family)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SMALL)
def test_anyrt_gives_what_numpy_gives(name):
    case = CASES[name]
    task, exact = LANGUAGE.task(case, 1)
    (way,) = load_peers(("anyrt",))[0]["anyrt"].prepare(task)
    way.run()
    assert reference.distance(case, exact, way.result())[1]


def test_another_result_is_wrong():
    case = CASES["topk_1x1000_5"]
    values, places = expected_of(case, inputs(case))
    assert reference.distance(case, (values, places), (values, places.astype(np.int64)))[1]
    assert not reference.distance(case, (values, places), (values, places + 1))[1]


def test_boxes_may_be_found_in_any_order():
    case = CASES["nms_300x1_above_0.3"]
    (rows,) = expected_of(case, inputs(case))
    assert reference.distance(case, (rows,), (rows[::-1].astype(np.int64),))[1]
    assert not reference.distance(case, (rows,), (rows[1:],))[1]


def test_a_byte_holds_two_codes_of_four_bits():
    from ml_dtypes import int4

    codes = np.array([1, -2, 7, -8]).astype(np.int8).astype(int4)
    assert packed(codes).tolist() == [0xE1, 0x87]
    assert fetched((packed(codes),), (codes,))[0].tolist() == codes.tolist()


def test_a_sample_between_two_elements_is_their_mean():
    image, grid = np.array([[[[1.0, 3.0]]]], np.float32), np.zeros((1, 1, 1, 2), np.float32)
    assert sampled(image, grid, "linear", "border", align=False).tolist() == [[[[2.0]]]]


def test_a_family_is_reached_when_most_rows_are_ahead_and_none_is_far_behind():
    slow = Entry("ort", "", 10.0, 10.0, 5, 0.0, 2.0)
    ahead = Row("a", "top k", 2, 1.0, 1.0, 0.0, None, (Entry("anyrt", "", 5.0, 5.0, 5, 0.0), slow), {},
                {"read": 8.0, "written": 8.0}, 0, 4)  # fmt: skip
    behind = Row("b", "top k", 2, 1.0, 1.0, 0.0, None, (Entry("anyrt", "", 20.0, 20.0, 5, 0.0), slow), {},
                 {"read": 8.0, "written": 8.0}, 2, 4)  # fmt: skip
    machine = Machine("cpu", 2, "L1", "avx2", "Linux", "Python", "1", {}, {})
    families, cases = report.tables(Results(machine, (ahead, behind), ()))
    assert families.rows[0] == ("top k", "2", "1 of 2", "1.00", "0.500", "no: 1 slower than 1.3")
    assert [line[-1] for line in cases.rows] == ["", "yes"]


def test_the_command_lists_its_cases(capsys):
    cli.main(["families", "--list", "--only", "^one_hot_64"])
    assert capsys.readouterr().out == "one_hot_64_100\n"
