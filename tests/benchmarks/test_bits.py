"""The benchmark of fewer bits: rows, files, products of few-bit weights, verdicts and tables."""

from dataclasses import asdict

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks import limit
from benchmarks.bits import products, report, session
from benchmarks.bits.command import _together
from benchmarks.bits.files import Files, Form
from benchmarks.bits.narrow import narrow_to_bfloat16
from benchmarks.bits.products import Product, streamed
from benchmarks.bits.rows import ROWS, Ask, Entry, Figure, Goal, Group
from benchmarks.bits.session import Built, Result, Timed
from benchmarks.child import call
from benchmarks.machine import Machine
from benchmarks.measure import once
from benchmarks.peers import first_line
from benchmarks.race import distance
from benchmarks.record import parse

MACHINE = Machine("a processor", 2, "L1", "avx2", "Linux", "Python", "0", {}, {})
BY_NAME = {r.name: r for r in ROWS}
SMALL = Product(2, 64, 48)


def timed(microseconds):
    return Timed(microseconds, microseconds, 10, 0.01, 0.999)


def measured(name, ours, **others):
    """The result of a row: the times of AnyRT and of others in microseconds; AnyRT's build takes 1.5 float32
    builds."""
    row = BY_NAME[name]
    labels = {e.label: timed(us) for e, us in zip(row.peers, others.values(), strict=False)}
    built = {
        row.ours.label: Built(3.0, 2000, 900, 1050, 10),
        "AnyRT float32": Built(2.0, 4000, 3900, 4000, 10),
    }
    return Result(name, 2, 100, 1000, 5.0, 1000, {row.ours.label: timed(ours), **labels}, built)


@pytest.fixture
def saved(tmp_path):
    products.export(
        tmp_path, SMALL.name, [Form.F32, Form.I4, Form.I4_LEVEL4, Form.I2, Form.I8, Form.I8_LEVEL4]
    )
    return Files(tmp_path, SMALL.name)


def test_names_differ_and_every_group_has_rows():
    assert len(BY_NAME) == len(ROWS)
    assert {r.group for r in ROWS} == set(Group)


def test_labels_distinguish_entries():
    entries = {e for r in ROWS for e in r.entries}
    assert len({e.label for e in entries}) == len(entries)


def test_rows_of_a_model_share_its_engines_but_codes_run_apart():
    rows = [BY_NAME[n] for n in ("bf16_bert", "int8_qdq_bert", "fp16_bert", "i4_1x2048x2048")]
    names = [[r.name for r in part] for part in _together(rows)]
    assert names == [["bf16_bert", "fp16_bert"], ["int8_qdq_bert"], ["i4_1x2048x2048"]]


def test_streamed_weights_are_twice_the_last_cache():
    size = streamed(32 << 20)
    assert 2 * (32 << 20) <= size.packed_bytes(4) < 2.1 * (32 << 20)


def test_sizes_of_codes_and_scales_are_those_of_the_file(saved):
    model = onnx.load(saved.of(Form.I4))
    held = sum(numpy_helper.to_array(x).nbytes for x in model.graph.initializer)
    assert saved.facts().packed[Form.I4.value] == held == SMALL.packed_bytes(4)


def test_codes_are_read_the_lowest_bits_first():
    codes = np.zeros((1, 1, 16), np.uint8)
    codes[0, 0, 0] = 0xF1
    held = products.Weights(codes, np.full((1, 1), 2, np.float32), 4)
    assert held.numbers(0, 1)[0, :3].tolist() == [-14, 14, -16]


@pytest.mark.parametrize("form", [Form.F32, Form.I4, Form.I4_LEVEL4, Form.I8, Form.I8_LEVEL4])
def test_engines_of_products_give_what_float64_gives(saved, form):
    entry = Entry("AnyRT", form)
    plan = saved.folder / "plan"
    plan.write_bytes(session.plan_of(entry, saved, 1))
    ready = session.load(entry, saved, plan, saved.inputs(), 1)
    ready.run()
    assert distance(ready.result(), saved.expected(form)).cosine >= entry.least_cosine


def test_onnx_runtime_reads_the_codes_as_we_do(saved):
    ort = pytest.importorskip("onnxruntime")
    model = ort.InferenceSession(saved.of(Form.I4), providers=["CPUExecutionProvider"])
    assert distance(model.run(None, saved.inputs()), saved.expected(Form.I4)).cosine > 0.99999


def test_a_built_engine_reports_its_bytes_and_products(saved):
    got = session.built(Entry("AnyRT"), saved, 1, saved.folder / "plan")
    assert got.weights >= 4 * 64 * 48
    assert got.plan >= got.weights
    assert got.resident >= got.weights
    assert got.flops == SMALL.flops


def test_errors_of_an_engine_are_shown_by_their_first_line(saved):
    saved.of(Form.I4).unlink()
    saved.failed(Form.I4, "a quantiser gave up")
    answer = call(session.built, (Entry("AnyRT", Form.I4), saved, 1, saved.folder / "plan"))
    assert answer.error == "cannot: no 4 bits file, a quantiser gave up"


def test_other_results_are_far_from_right_ones():
    y = np.array([1.0, -2.0])
    assert distance([np.array([1.0, -1.0])], [y]).error == 0.5
    assert distance([-y], [y]).cosine == pytest.approx(-1)
    assert distance([y[:1]], [y]).cosine == -1
    assert distance([y * np.nan], [y]).cosine == -1


def test_reading_more_bytes_takes_longer():
    short, long = (min(once(w.run) for w in limit.reading(n << 20, 1)) for n in (1, 64))
    assert 0 < short < long


# ---- bfloat16 models ----------------------------------------------------------------------------


def a_model(nodes, inits, shape=(2, 4)):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy")
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in inits.items()]
    return helper.make_model(
        helper.make_graph([helper.make_node(*n[:3], **n[3]) for n in nodes], "g", [x], [y], held)
    )


def narrow(model):
    narrow_to_bfloat16(model)
    return model


def test_weights_inputs_outputs_and_casts_become_bfloat16():
    nodes = [("Cast", ["x"], ["a"], {"to": TensorProto.FLOAT}), ("Mul", ["a", "w"], ["y"], {})]
    graph = narrow(a_model(nodes, {"w": np.full((4,), 1.5, np.float32)})).graph
    assert graph.initializer[0].data_type == TensorProto.BFLOAT16
    assert numpy_helper.to_array(graph.initializer[0]).dtype == ml_dtypes.bfloat16
    assert graph.node[0].attribute[0].i == TensorProto.BFLOAT16
    assert {v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)} == {TensorProto.BFLOAT16}


def test_angles_stay_float32_up_to_their_cosine():
    nodes = [
        ("Mul", ["p", "f"], ["angle"], {}),
        ("Cos", ["angle"], ["c"], {}),
        ("Mul", ["x", "c"], ["y"], {}),
    ]
    model = narrow(a_model(nodes, {"p": np.full((4,), 255, np.float32), "f": np.ones(4, np.float32)}))
    assert [x.data_type for x in model.graph.initializer] == [TensorProto.FLOAT] * 2
    assert [n.op_type for n in model.graph.node] == ["Mul", "Cos", "Cast", "Mul"]


def test_numbers_that_bfloat16_would_make_infinite_stay_finite():
    graph = narrow(a_model([("Max", ["x", "w"], ["y"], {})], {"w": np.float32(-3.4028235e38)})).graph
    assert np.isfinite(numpy_helper.to_array(graph.initializer[0]).astype(np.float32))


# ---- tables -------------------------------------------------------------------------------------


def test_missed_goals_are_named_with_the_actual_values():
    row = BY_NAME["i4_1x2048x2048"]
    assert report.missed(row, measured(row.name, 10.0, ort=12.0)) == ["plan 2.00 × packed", "1.20 × the best"]
    assert report.missed(row, measured(row.name, 10.0)) == ["plan 2.00 × packed", "? × the best"]


def test_a_speed_goal_is_about_those_that_it_names():
    row = BY_NAME["bf16_bert"]
    result = measured(row.name, 10.0, openvino_bf16=12.0, openvino=11.0)
    speed, best = (Goal(Figure.SPEED, 1.1, beside) for beside in ((Entry("OpenVINO", ask=Ask.BF16),), ()))
    assert report.value(speed, row, result) == 1.2
    assert report.value(best, row, result) == 1.1


def test_tables_show_rows_that_are_rejected(tmp_path):
    refused = Result("i2_1x4096x4096", 2, 1, 1, 1.0, left_out={"AnyRT 2 bits": "ParserError: no 2 bits"})
    rows = [refused, measured("int8_qdq_mobilenet", 10.0, ort=12.0, ov=11.0)]
    report.PAGE.write(tmp_path / "bits.md", report.tables(rows), MACHINE)
    text = (tmp_path / "bits.md").read_text()
    assert "| i2_1x4096x4096 | ParserError: no 2 bits |" in text
    assert "| int8_qdq_mobilenet | 0.0100 | OpenVINO Q/DQ | 0.0110 | 1.10 |" in text
    assert "no: build 1.50 × float32's" in text
    assert "Left out:\n\n- i2_1x4096x4096: AnyRT 2 bits: ParserError: no 2 bits\n" in text


def test_the_first_line_of_an_error_is_one_that_says_more_than_where():
    assert first_line(RuntimeError("from core.cpp:84:\n\nno rule for QGemm\nat")) == (
        "RuntimeError: no rule for QGemm"
    )


def test_results_pass_through_json():
    result = measured("i4_1x2048x2048", 10.0, ort=12.0)
    assert parse(Result, asdict(result)) == result
