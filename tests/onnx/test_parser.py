"""The parser: return values, locations of weights, functions, subgraphs, and errors."""

import gc
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyrt as trt
from anyrt.onnx.session import load
from anyrt.onnx.weights import Reader, to_weights
from anyrt.onnx.wire import LARGE, without_weights
from tests.messages import diagnostic

OPSET = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
W = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 1000


def info(name, *shape, dtype=1):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, weights=(), inputs=("x",), outputs=("y",), shape=("n", 64), **more):
    graph = helper.make_graph(
        nodes, "g", [info(n, *shape) for n in inputs], [info(n, *shape) for n in outputs], list(weights)
    )
    return helper.make_model(graph, opset_imports=OPSET, **more)


def product(weights=None):
    held = numpy_helper.from_array(W, "w") if weights is None else weights
    return model([helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")], [held])


def added(sizes, kind):
    """A model with weights of these shapes whose elements are missing."""
    return model(
        [helper.make_node("Add", ["x", "w"], ["y"])], [TensorProto(name="w", dims=sizes, data_type=kind)]
    )


def parsed(data, path=None):
    builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
    network = builder.create_network()
    parser = trt.OnnxParser(network, builder.logger)
    good = parser.parse(data.SerializeToString() if hasattr(data, "SerializeToString") else data, path)
    return good, parser, network


def problems(data, path=None):
    good, parser, _ = parsed(data, path)
    assert not good
    return [str(parser.get_error(i)) for i in range(parser.num_errors)]


def test_a_model_becomes_layers_with_the_names_of_its_nodes():
    good, parser, network = parsed(product())
    assert good
    assert [layer.name for layer in network] == ["w", "mm"]
    assert (network.get_input(0).name, tuple(network.get_input(0).shape)) == ("x", (-1, 64))
    assert (network.get_output(0).name, parser.num_errors) == ("y", 0)
    assert parser.get_layer_output_tensor("mm", 0) == network.get_output(0)


def test_a_file_of_one_line_runs(tmp_path):
    onnx.save(product(), tmp_path / "m.onnx")
    session = load(tmp_path / "m.onnx")
    x = np.ones((3, 64), np.float32)
    np.testing.assert_allclose(session.run({"x": x})["y"], x @ W, rtol=1e-5)
    assert (session.inputs[0].name, session.outputs[0].shape) == ("x", (-1, 64))


def test_open_sizes_of_one_name_are_one_size():
    _, _, network = parsed(model([helper.make_node("Add", ["x", "z"], ["y"])], inputs=("x", "z")))
    assert network.get_input(1).get_dimension_name(0) == "n"


def test_a_question_mark_is_no_name_of_a_size():
    _, _, network = parsed(model([helper.make_node("Relu", ["x"], ["y"])], shape=("?", "?")))
    assert [network.get_input(0).get_dimension_name(i) for i in range(2)] == ["", ""]


def test_large_weights_are_taken_out_of_the_message_and_read_where_they_lie():
    data = product().SerializeToString()
    assert len(without_weights(memoryview(data))) < 400 < W.nbytes < len(data)
    small = model([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString()
    assert without_weights(memoryview(small)) == small


@pytest.mark.parametrize("more", range(4))
def test_weights_that_begin_anywhere_are_not_copied_and_multiply_alike(tmp_path, more):
    data = model([helper.make_node("MatMul", ["x", "w"], ["y"], name="m" * more)],
                 [numpy_helper.from_array(W, "w")]).SerializeToString()  # fmt: skip
    result = onnx.ModelProto.FromString(without_weights(memoryview(data))).graph.initializer[0]
    array = Reader(None, memoryview(data)).array(result)
    assert np.shares_memory(to_weights(array, trt.float32).numpy(), np.frombuffer(data, np.uint8))
    (tmp_path / "m.onnx").write_bytes(data)
    x = np.ones((3, 64), np.float32)
    np.testing.assert_allclose(load(tmp_path / "m.onnx").run({"x": x})["y"], x @ W, rtol=1e-5)


def test_weights_that_say_that_they_lie_in_the_message_do():
    held = numpy_helper.from_array(W, "w")
    held.data_location = TensorProto.DEFAULT  # stored after the bytes, as in quantised models
    data = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [held]).SerializeToString()
    result = onnx.ModelProto.FromString(without_weights(memoryview(data))).graph.initializer[0]
    assert not result.raw_data
    np.testing.assert_array_equal(Reader(None, memoryview(data)).array(result), W)


def test_weights_of_nodes_and_of_graphs_inside_are_taken_out_as_well():
    value = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(W))
    inner = helper.make_graph([value], "inner", [], [info("c", 64, 64)])
    node = helper.make_node("If", ["b"], ["y"], then_branch=inner, else_branch=inner)
    data = model([node]).SerializeToString()
    assert len(data) > 2 * W.nbytes > 2 * LARGE
    assert len(without_weights(memoryview(data))) < 1000


def beside(tmp_path, location="w.bin", offset=None, length=None, write=True):
    weights = TensorProto(name="w", dims=[64, 64], data_type=1, data_location=1)
    inputs = {"location": location, "offset": offset, "length": length}
    for key, value in inputs.items():
        if value is not None:
            weights.external_data.add(key=key, value=str(value))
    if write:
        (tmp_path / "w.bin").write_bytes(b"\0" * (offset or 0) + W.tobytes())
    (tmp_path / "m.onnx").write_bytes(product(weights).SerializeToString())
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("offset", [None, 0, 64, 5])
def test_weights_in_another_file_are_read_from_their_place(tmp_path, offset):
    session = load(beside(tmp_path, offset=offset, length=W.nbytes))
    x = np.ones((1, 64), np.float32)
    np.testing.assert_allclose(session.run({"x": x})["y"], x @ W, rtol=1e-5)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../w.bin", "a file in the model's folder"),
        ("/etc/hostname", "a file in the model's folder"),
        ("a/../../w.bin", "a file in the model's folder"),
        ("missing.bin", "no file"),
        ("..\\w.bin", "a file in the model's folder"),
        ("w.bin\0x", "a file in the model's folder"),
        (".", "no file"),
    ],
)
def test_nothing_outside_the_folder_is_read(tmp_path, location, message):
    with pytest.raises(trt.errors.GraphError, match=f"AR418.*{message}"):
        load(beside(tmp_path, location))


def test_weights_that_are_shorter_than_declared_are_rejected(tmp_path):
    path = beside(tmp_path)
    (tmp_path / "w.bin").write_bytes(b"\0" * 100)
    with pytest.raises(trt.errors.GraphError, match=diagnostic("AR418", "initializer w: w.bin", 100, 16384)):
        load(path)


def test_links_lead_to_the_store_of_the_models_cache_and_nowhere_else(tmp_path, golden_text):
    blobs, snapshot = tmp_path / "cache" / "blobs", tmp_path / "cache" / "snapshots" / "v1"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    path = beside(snapshot, write=False)
    (blobs / "abc").write_bytes(W.tobytes())
    (snapshot / "w.bin").symlink_to("../../blobs/abc")
    assert load(path).outputs[0].name == "y"
    (snapshot / "w.bin").unlink()
    (tmp_path / "secret").write_bytes(W.tobytes())
    (snapshot / "w.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(trt.errors.GraphError) as caught:
        load(path)
    golden_text(caught.value)


def test_a_function_of_the_model_is_expanded_with_its_attributes():
    body = [
        helper.make_node("Constant", [], ["k"]),
        helper.make_node("Add", ["a", "k"], ["b"]),
    ]
    body[0].attribute.add(name="value_float", ref_attr_name="k", type=onnx.AttributeProto.FLOAT)
    inner = helper.make_function("mine", "AddK", ["a"], ["b"], body, OPSET[:1], ["k"])
    outer = helper.make_function(
        "mine", "Twice", ["a"], ["c"],
        [helper.make_node("AddK", [a], [b], domain="mine", k=2.0) for a, b in ("ab", "bc")],
        OPSET, [],
    )  # fmt: skip
    proto = model([helper.make_node("Twice", ["x"], ["y"], domain="mine")], functions=[inner, outer])
    good, _, network = parsed(proto)
    assert good, problems(proto)
    assert [layer.type for layer in network].count(trt.LayerType.ELEMENTWISE) == 2


def test_a_function_that_calls_itself_is_rejected():
    itself = helper.make_function(
        "mine", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="mine")], OPSET, []
    )
    proto = model([helper.make_node("F", ["x"], ["y"], domain="mine")], functions=[itself])
    assert "AR417" in problems(proto)[0]


def test_all_unknown_operators_are_reported_together_each_with_its_node():
    nodes = [
        helper.make_node("First", ["x"], ["a"], name="one", domain="mine"),
        helper.make_node("Second", ["a"], ["y"], name="two"),
    ]
    reported = problems(model(nodes))
    assert ["mine::First" in reported[0], "operator Second" in reported[1], len(reported)] == [True, True, 2]
    assert "node 0 [First] one" in reported[0]
    assert "@anyrt.op" in reported[0]


def test_every_problem_is_reported_without_its_consequences():
    nodes = [
        helper.make_node("MatMul", ["x", "small"], ["a"], name="one"),
        helper.make_node("Relu", ["a"], ["b"], name="after"),
        helper.make_node("Concat", ["x", "small"], ["y"], name="two", axis=5),
    ]
    _, parser, _ = parsed(model(nodes, [numpy_helper.from_array(W[:3], "small")]))
    errors = [parser.get_error(i) for i in range(parser.num_errors)]
    assert [(e.node(), e.node_name(), e.node_operator()) for e in errors] == [
        (0, "one", "MatMul"),
        (2, "two", "Concat"),
    ]
    assert "one" in errors[0].desc()
    assert errors[0].file().endswith(".py")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "AR416"),
        (b"no model", "AR416"),
        (b"\x3a\xff\xff\xff\xff\x0f", "longer than the file"),
        (b"\x3a\x80", "in the middle of a number"),
        (product().SerializeToString()[:-9], "AR416"),
        (model([helper.make_node("Relu", ["z"], ["y"])]), "no earlier node computes"),
        (model([helper.make_node("Relu", ["x"], ["x"])]), "AR417"),
        (model([helper.make_node("Relu", ["y"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]), "AR417"),
        (model([helper.make_node("Relu", [], ["y"])]), "no input 0"),
        (model([helper.make_node("Relu", ["x"], ["a"])]), "AR417.*y"),
        (added([2], 1), "AR417"),
        (added([-2], 1), "AR417"),
        (added([2], 8), "strings"),
        (added([2], 99), "type 99"),
        (helper.make_model(product().graph, opset_imports=[helper.make_opsetid("", 99)]), "opset 99"),
        (helper.make_model(product().graph, opset_imports=[helper.make_opsetid("", 0)]), "opset 0"),
    ],
    ids=lambda x: None if isinstance(x, str) else "",
)  # fmt: skip
def test_invalid_models_are_rejected_by_name(data, message):
    assert any(re.search(message, p) for p in problems(data))


def test_terabytes_are_rejected_without_taking_memory():
    big = TensorProto(name="w", dims=[1 << 20, 1 << 20], data_type=1, raw_data=b"\0" * 8)
    assert re.match(diagnostic("AR417", "w", 8, 1 << 42), problems(product(big))[0])
    proto = model([helper.make_node("Relu", ["x"], ["y"])], shape=(1 << 40, 1 << 20))
    assert "AR111" in problems(proto)[0]


def test_a_query_of_support_fills_an_empty_network():
    network = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_network()
    parser = trt.OnnxParser(network, trt.Logger(trt.Logger.ERROR))
    data = model([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString()
    assert parser.supports_model(data) == (True, [([0], True)])
    assert (len(network), network.num_inputs, network.num_outputs) == (1, 1, 1)


def test_support_lists_runs_of_supported_nodes_and_leaves_other_networks_alone():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Nothing", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    _, parser, network = parsed(product())
    before = len(network)
    data = model(nodes).SerializeToString()
    assert parser.supports_model(data) == (False, [([0], True), ([2], True)])
    assert not parser.supports_model_v2(data)
    assert (parser.num_subgraphs, parser.get_subgraph_nodes(1)) == (2, [2])
    assert [parser.is_subgraph_supported(i) for i in range(3)] == [True, True, False]
    assert [parser.supports_operator(n) for n in ("Relu", "Mish", "Nothing")] == [True, True, False]
    assert len(network) == before


@pytest.mark.parametrize(("kind", "part"), [(trt.NodeIndices, 3), (trt.SubGraphCollection, ([0, 1], True))])
def test_parts_of_models_are_lists_that_are_true_where_they_hold_something(kind, part):
    result = kind()
    assert not result
    result.append(part)
    assert result
    assert result.pop() == part


def test_initializers_may_be_given_as_memory():
    builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
    network = builder.create_network()
    parser = trt.OnnxParser(network, builder.logger)
    empty = TensorProto(name="w", dims=[64, 64], data_type=1)
    assert parser.load_model_proto(product(empty).SerializeToString())
    array = W.copy()
    assert not parser.load_initializer("q", array.ctypes.data, array.nbytes)
    assert not parser.load_initializer("w", array.ctypes.data, 8)
    assert parser.load_initializer("w", array.ctypes.data, array.nbytes)
    assert parser.parse_model_proto()
    gc.collect()
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(builder.logger).deserialize_cuda_engine(plan)
    x = np.ones((2, 64), np.float32)
    np.testing.assert_allclose(engine.run(x=x)["y"], x @ W, rtol=1e-5)


def test_flags_read_back_and_strange_arguments_are_type_errors():
    _, parser, _ = parsed(product())
    parser.set_flag(trt.OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE)
    assert parser.get_flag(trt.OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE)
    parser.clear_flag(trt.OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE)
    assert parser.flags == 1 << trt.OnnxParserFlag.NATIVE_INSTANCENORM
    for call in (
        lambda: trt.OnnxParser(None, trt.Logger()),
        lambda: parser.parse("m.onnx"),
        lambda: parser.parse(product()),
        lambda: parser.parse(3),
        lambda: parser.set_flag(3),
    ):
        with pytest.raises(TypeError, match="AR311"):
            call()


def test_strict_raises_the_first_problem():
    builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
    parser = trt.OnnxParser(builder.create_network(), builder.logger)
    with trt.strict(), pytest.raises(trt.errors.GraphError, match="AR416"):
        parser.parse(b"no model")
    assert trt.get_nv_onnx_parser_version() == 101600


def test_an_input_that_is_an_output_is_copied():
    proto = model([helper.make_node("Relu", ["x"], ["y"])], outputs=("y", "x"))
    good, _, network = parsed(proto)
    assert good
    assert [network.get_output(i).name for i in range(2)] == ["y", "x"]
