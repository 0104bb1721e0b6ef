"""Searches for the layers that must stay float32, and for the failing part of a model."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from anyrt.cli.debug.precision import fewest
from anyrt.cli.debug.reduce import reduced
from anyrt.cli.main import main


def saved(nodes, weights=(), path="m.onnx", opsets=(("", 17),)):
    x, y = (helper.make_tensor_value_info(n, 1, [2, 4]) for n in "xy")
    held = [numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in opsets]), path)
    return path


def node(kind, reads, makes, **attributes):
    return helper.make_node(kind, reads.split(), [makes], name=f"{kind.lower()}_{makes}", **attributes)


@pytest.mark.parametrize("needed", [{"a"}, {"d"}, {"b", "e"}, {"a", "b", "c", "d", "e"}])
def test_no_layer_of_the_answer_can_be_left_out(needed):
    result = fewest("abcde", lambda kept: float(len(needed - kept)), 0.5)
    assert set(result.kept) == needed
    assert result.builds <= 16


def test_a_layer_that_only_seems_to_matter_is_dropped():
    """If only one layer is half, a is the worst; if the others are half, too, only c matters."""
    errors = {"": 1.0, "a": 1.0, "c": 0.0, "ac": 0.0, "ab": 0.55, "bc": 0.6}
    assert fewest("abc", lambda kept: errors["".join(sorted(kept))], 0.5).kept == ("c",)


def test_nothing_is_kept_where_the_half_type_is_exact_enough():
    assert fewest("abc", lambda kept: 1e-3, 1e-2).kept == ()


def test_precision_writes_options_that_keep_what_is_needed(folder, capsys):
    large = np.eye(4, dtype=np.float32) * 4e5
    nodes = [node("MatMul", "x w", "h"), node("MatMul", "h v", "g"), node("MatMul", "g u", "y")]
    weights = [("w", large), ("v", np.eye(4, dtype=np.float32) / 4e5), ("u", np.eye(4, dtype=np.float32))]
    path = saved(nodes, weights)
    assert main(["debug", "precision", path, "--accuracy", "1e-4", "-o", "flags.txt", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["error"] <= 1e-4 < output["without"]
    assert 0 < len(output["kept"]) <= output["layers"]
    words = (folder / "flags.txt").read_text().split()
    assert words[:2] == ["--fp16", "--precisionConstraints=obey"]
    assert main(["exec", f"--onnx={path}", "--skipInference", *words]) == 0


def test_reduce_cuts_a_rejected_model_to_the_node_that_is_rejected(folder, capsys):
    nodes = [node("Relu", "x", "a"), node("Exp", "a", "b"), node("Neg", "b", "c"), node("Abs", "c", "y")]
    path = saved(nodes)
    proto = onnx.load(path)
    values = {n: np.ones((2, 4), np.float32) for n in "abcy"}

    def fails(part, feeds):
        assert set(feeds) == {v.name for v in part.graph.input}
        return "AR901" if any(n.op_type == "Neg" for n in part.graph.node) else None

    result = reduced(proto, {"x": np.ones((2, 4), np.float32)}, values, fails)
    assert [n.op_type for n in result.model.graph.node] == ["Neg"]
    onnx.checker.check_model(result.model)


def test_reduce_finds_the_node_that_differs(folder, capsys, monkeypatch):
    nodes = [node("Relu", "x", "a"), node("Exp", "a", "b"), node("Neg", "b", "c"), node("Abs", "c", "y")]
    path = saved(nodes)
    from anyrt.onnx import reference

    real = reference._reference

    def wrong(model, feeds):
        result = real(model, feeds)
        return {
            n: x + 1 if any(k.op_type == "Exp" for k in model.proto.graph.node) and n == "b" else x
            for n, x in result.items()
        }

    monkeypatch.setattr(reference, "_reference", wrong)
    proto = onnx.load(path)
    proto.graph.output[0].name = "b"
    del proto.graph.node[2:]
    onnx.save(proto, path)
    assert main(["debug", "reduce", path, "-o", "small.onnx", "--against", "reference", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["reason"], output["nodes"]) == ("differs", ["Exp"])
    assert [n.op_type for n in onnx.load("small.onnx").graph.node] == ["Exp"]


def test_a_model_that_does_not_fail_is_reported_to_agree(folder, capsys):
    path = saved([node("Relu", "x", "y")])
    with pytest.raises(SystemExit, match="1"):
        main(["debug", "reduce", path, "-o", "small.onnx", "--against", "reference"])
    assert "agrees with reference" in capsys.readouterr().out
