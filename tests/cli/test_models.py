"""Commands that take an ONNX model: check, compare, inspect, explain."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from anyrt.cli.main import main
from anyrt.cli.polygraphy import read_inputs, write_inputs
from anyrt.onnx.reference import compare


@pytest.fixture
def path(tmp_path):
    """y = max(x · w, 0)."""
    x, y = (helper.make_tensor_value_info(n, 1, [d, 3]) for n, d in (("x", "n"), ("y", "n")))
    w = numpy_helper.from_array(np.eye(3, dtype=np.float32) * 2, "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="mm"), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_check_reports_inputs_and_outputs(path, capsys):
    assert main(["check", str(path), "--dla"]) == 0
    out = capsys.readouterr().out
    assert [line.split(maxsplit=2) for line in out.splitlines()[1:3]] == [
        ["input", "x", "float32 (-1, 3)"],
        ["output", "y", "float32 (-1, 3)"],
    ]
    assert "RELU" not in out
    assert "ACTIVATION" in out


def test_check_reports_every_problem(path, capsys):
    model = onnx.load(path)
    model.graph.node[0].op_type, model.graph.node[1].op_type = "First", "Second"
    onnx.save(model, path)
    with pytest.raises(SystemExit, match="1"):
        main(["check", str(path)])
    out = capsys.readouterr().out
    assert "operator First" in out
    assert "operator Second" in out


@pytest.mark.parametrize("against", ["reference", "onnxruntime"])
@pytest.mark.parametrize("layers", [(), ("--layers",)])
def test_compare_runs_both(path, against, layers, capsys):
    if against == "onnxruntime":
        pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed; anyrt[bench] brings it")
    assert main(["compare", str(path), "--against", against, "--shapes", "x:4x3", *layers]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[-1] == f"{2 if layers else 1} agree with {against}"
    assert rows[-2].split()[:3] == ["y", "(4,", "3)"]


def test_compare_names_the_first_that_differs(path, capsys, monkeypatch):
    monkeypatch.setattr(
        "anyrt.onnx.reference._reference", lambda m, f: {n: np.ones((1, 3)) for n in m.outputs}
    )
    with pytest.raises(SystemExit, match="1"):
        main(["compare", str(path), "--against", "reference", "--layers"])
    assert capsys.readouterr().out.splitlines()[-1] == "first difference from reference: h, of MatMul mm"


def test_compare_saves_and_loads_what_polygraphy_does(path, tmp_path, capsys):
    held, out = tmp_path / "in.json", tmp_path / "out.json"
    words = ["compare", str(path), "--against", "reference", "--save-inputs", str(held)]
    assert main([*words, "--save-outputs", str(out)]) == 0
    assert main(["compare", str(path), "--against", "reference", "--load-inputs", str(held)]) == 0
    runs = json.loads(out.read_text())
    assert [name for name, _ in runs["lst"]] == ["anyrt", "reference"]
    assert runs["polygraphy_class"] == "RunResults"


def test_arrays_come_back_from_json(tmp_path):
    write_inputs({"x": np.float16([[1, 2]])}, tmp_path / "in.json")
    (array,) = read_inputs(tmp_path / "in.json").values()
    assert (array.dtype, array.tolist()) == (np.float16, [[1, 2]])


@pytest.mark.parametrize("text", ["", "[]", "{}", '[{"x": {"array": "!"}}]', '[{"x": 3}]'])
def test_files_without_arrays_are_rejected(text, tmp_path, path, capsys):
    (tmp_path / "in.json").write_text(text)
    words = ["compare", str(path), "--against", "reference", "--load-inputs", str(tmp_path / "in.json")]
    assert main(words) == 2
    assert "AR705" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("actual", "expected", "agrees"),
    [([1.0], [1.0005], True), ([1.0], [1.1], False), ([np.nan], [np.nan], True), ([np.inf], [np.inf], True)],
)
def test_real_numbers_agree_within_tolerance(actual, expected, agrees):
    assert compare("y", np.float32(actual), np.float32(expected), 1e-3, 0).agrees is agrees


def test_integers_agree_exactly():
    assert not compare("y", np.int32([1000]), np.int32([1001]), 1e-1, 10).agrees


def test_inspect_reports_the_content_of_a_model(path, capsys):
    assert main(["inspect", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["inputs"], facts["operators"]) == ({"x": "float32 (n, 3)"}, {"MatMul": 1, "Relu": 1})
    assert facts["elements of weights"] == {"float32": 9}


def test_explain_takes_a_model(path, capsys):
    assert main(["explain", str(path)]) == 0
    assert "in 1 kernel" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["compare", "inspect", "explain"])
def test_a_file_that_is_no_model_is_reported_in_one_line(command, tmp_path, capsys):
    (tmp_path / "m.onnx").write_bytes(b"junk")
    assert main([command, str(tmp_path / "m.onnx")]) == 2
    err = capsys.readouterr().err
    assert "[AR416] " in err
    assert err.count("\n") == 1


def test_models_of_standard_plugins_are_checked_and_run(path, capsys):
    model = onnx.load(path)
    relu = model.graph.node[1]
    relu.op_type, relu.domain = "LReLU_TRT", "TRT"
    relu.attribute.append(helper.make_attribute("negSlope", 0.5))
    onnx.save(model, path)
    assert main(["check", str(path)]) == 0
    assert main(["inspect", str(path)]) == 0
    assert main(["exec", f"--onnx={path}", "--skipInference"]) == 0
    assert "PASSED" in capsys.readouterr().out
