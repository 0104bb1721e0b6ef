"""Malicious models: each is rejected with an error code, in time, and without taking memory."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyrt as trt
from anyrt.api.plugins import standards
from anyrt.onnx import graph as walked
from tests.messages import diagnostic

SETS = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
X = helper.make_tensor_value_info("x", 1, ["n", 4])
C = helper.make_tensor_value_info("c", 9, [])


def model(nodes, weights=(), functions=(), inputs=(X, C), outputs=("y",)):
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "g", list(inputs), results, list(weights))
    return helper.make_model(graph, opset_imports=SETS, functions=list(functions)).SerializeToString()


def parser_of(data):
    log = trt.Logger(trt.Logger.INTERNAL_ERROR)
    parser = trt.OnnxParser(trt.Builder(log).create_network(), log)
    return parser.parse(data), parser


def problems(data):
    good, parser = parser_of(data)
    assert not good
    return [parser.get_error(i).desc() for i in range(parser.num_errors)]


def call(name, value, built):
    return helper.make_node(name, [value], [built], domain="own")


def test_nodes_in_a_cycle_are_rejected_by_the_name_that_nothing_makes(golden_text):
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    (problem,) = problems(model([*nodes, helper.make_node("Neg", ["b"], ["y"])]))
    golden_text(problem)


def test_a_missing_weight_and_a_duplicate_name_are_reported():
    twice = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])]
    assert "AR417" in problems(model([helper.make_node("Add", ["x", "w"], ["y"])]))[0]
    assert "AR417" in problems(model(twice))[0]


def test_few_functions_that_stand_for_billions_of_nodes_are_rejected(monkeypatch):
    monkeypatch.setattr(walked, "MOST", 1000)  # the usual 65 536 take seconds
    first = helper.make_function("own", "F0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], SETS)
    later = [[call(f"F{k - 1}", "a", "t"), call(f"F{k - 1}", "t", "b")] for k in range(1, 40)]
    built = [helper.make_function("own", f"F{k}", ["a"], ["b"], n, SETS) for k, n in enumerate(later, 1)]
    reported = problems(model([call("F39", "x", "y")], functions=[first, *built]))
    assert any(re.match(diagnostic("AR901", re.compile(r"F\d+"), 1000), t) for t in reported)


def test_zeros_are_rejected_at_the_first_byte():
    (problem,) = problems(bytes(50_000_000))  # half a second for each million, when they were read as fields
    assert re.match(diagnostic("AR416", "the model", 0, "ONNX"), problem)


def test_many_unknown_nodes_ask_for_the_creators_of_plugins_once(monkeypatch):
    """Each used to ask for all 84 of TensorRT's creators: 170 s for 2 MiB of empty nodes."""
    asked, bring = [], standards.init_libnvinfer_plugins
    monkeypatch.setattr(standards, "init_libnvinfer_plugins", lambda *a: asked.append(a) or bring(*a))
    reported = problems(model([helper.make_node(f"Own{k % 3}", ["x"], [f"y{k}"]) for k in range(3000)]))
    assert len(asked) == 1
    assert [t[:7] for t in reported[:1000]] == ["[AR904]"] * 1000
    assert [bool(re.match(diagnostic("AR417", "the model", 2000), t)) for t in reported[1000:]] == [True]


def test_many_wrong_initializers_are_counted_and_not_all_reported():
    reported = problems(model([], [TensorProto(name=f"w{k}") for k in range(1001)]))
    assert re.match(diagnostic("AR901", "w999", 0), reported[999])
    assert re.match(diagnostic("AR417", "the model", 1), reported[1000])


def test_nodes_with_unreported_problems_are_not_listed_as_supported():
    nodes = [helper.make_node("Own", ["x"], [f"y{k}"]) for k in range(1500)]
    log = trt.Logger(trt.Logger.INTERNAL_ERROR)
    parser = trt.OnnxParser(trt.Builder(log).create_network(), log)
    good, parts = parser.supports_model(model([*nodes, helper.make_node("Neg", ["x"], ["y"])]))
    assert (good, parts) == (False, [([1500], True)])


def test_conditionals_thirty_deep_are_described():
    def graph(k, *nodes):
        return helper.make_graph(nodes, f"g{k}", [], [helper.make_empty_tensor_value_info(f"z{k}")])

    deep = graph(0, helper.make_node("Neg", ["x"], ["z0"]))
    for k in range(1, 26):
        other = graph("e", helper.make_node("Abs", ["x"], ["ze"]))
        deep = graph(k, helper.make_node("If", ["c"], [f"z{k}"], then_branch=deep, else_branch=other))
    shallow = graph("s", helper.make_node("Abs", ["x"], ["zs"]))
    assert parser_of(model([helper.make_node("If", ["c"], ["y"], then_branch=deep, else_branch=shallow)]))[0]


def test_messages_nested_too_deeply_are_rejected(golden_text):
    def field(number, content):
        size = bytes([len(content) & 127 | 128, len(content) >> 7 & 127 | 128, len(content) >> 14])
        return bytes([number << 3 | 2]) + size + content

    graph = b""
    for _ in range(2000):
        graph = field(1, field(4, b"If") + field(5, field(6, graph)))
    golden_text(problems(field(7, graph))[0])


@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Tile", "Resize"])
def test_terabyte_shapes_are_rejected_in_their_node(op):
    inputs = {"ConstantOfShape": ["s"], "Resize": ["x", "", "", "s"]}.get(op, ["x", "s"])
    size = numpy_helper.from_array(np.int64([1 << 40]), "s")
    row = helper.make_tensor_value_info("x", 1, [1])
    (problem,) = problems(model([helper.make_node(op, inputs, ["y"])], [size], inputs=[row]))
    assert problem[:7] in ("[AR111]", "[AR125]")


def test_names_that_are_no_text_are_rejected():
    data = model([helper.make_node("Neg", ["x"], ["y"], name="first")]).replace(b"first", b"fir\xffx")
    assert problems(data)[0].startswith("[AR416]")
    assert "bytes b'fir\\xffx'" in problems(data)[0]


def test_an_exception_in_an_importer_names_the_node_and_others_are_reported():
    nodes = [helper.make_node("Tile", ["x", "s"], ["a"], name="first"), helper.make_node("Neg", ["q"], ["y"])]
    reported = problems(model(nodes, [numpy_helper.from_array(np.int64([1, 2, 3]), "s")]))
    assert reported[0].startswith("[AR417] first")
    assert "check_model" in reported[0]
    assert reported[1].startswith("[AR417] q")


def test_strict_shows_where_an_importer_stumbled():
    data = model(
        [helper.make_node("Tile", ["x", "s"], ["y"])], [numpy_helper.from_array(np.int64([1, 2, 3]), "s")]
    )
    with trt.strict(), pytest.raises(trt.errors.GraphError, match="AR417") as caught:
        parser_of(data)
    assert isinstance(caught.value.__cause__, ValueError)


def test_missing_graphs_and_words_of_an_operator_are_reported():
    (graph,) = problems(model([helper.make_node("If", ["c"], ["y"])]))
    assert re.match(diagnostic("AR417", "y", "then_branch", "then_branch", "If"), graph)
    mode = helper.make_node("Pad", ["x", "p"], ["y"], mode="sideways")
    (word,) = problems(model([mode], [numpy_helper.from_array(np.int64([0, 1, 0, 1]), "p")]))
    assert re.match(diagnostic("AR304", "y", "mode", "'sideways'", "constant"), word)


def test_a_fault_of_the_parser_is_reported_and_not_thrown(monkeypatch):
    def broken(*_):
        raise AssertionError("broken")

    monkeypatch.setitem(trt.onnx.node.IMPORTERS, ("", "Neg"), broken)
    data = model([helper.make_node("Neg", ["x"], ["y"])])
    assert "AR807" in problems(data)[0]
    assert "broken" in problems(data)[0]
    with trt.strict(), pytest.raises(AssertionError, match="broken"):
        parser_of(data)


@pytest.mark.parametrize(
    ("node", "inputs", "message"),
    [
        (helper.make_node("ConstantOfShape", ["s"], ["y"]), {"s": (7, [1 << 31])}, "AR115"),
        (helper.make_node("Expand", ["x", "s"], ["y"]), {"x": (1, [1]), "s": (7, [1 << 31])}, "AR417"),
        (helper.make_node("SplitToSequence", ["x"], ["y"]), {"x": (1, [1 << 31])}, "AR901"),
        (helper.make_node("LRN", ["x"], ["y"], size=1 << 40), {"x": (1, [1, 4, 2, 2])}, "AR901"),
    ],
)
def test_nodes_that_would_become_a_layer_for_each_of_many_numbers_are_rejected(node, inputs, message):
    declared = [helper.make_tensor_value_info(n, dtype, shape) for n, (dtype, shape) in inputs.items()]
    assert problems(model([node], inputs=declared))[0].startswith(f"[{message}]")
