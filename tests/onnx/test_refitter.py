"""Refitting from ONNX models: the weights of a second model replace those of the first, by name."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import anyrt as trt
from tests.messages import diagnostic

Flag, RNG = trt.BuilderFlag, np.random.default_rng(3)
X = RNG.standard_normal((1, 4, 10, 10)).astype(np.float32)


class Collect(trt.ILogger):
    """Records warnings and errors."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        if severity <= trt.Logger.WARNING:
            self.lines.append(msg)


@pytest.fixture
def log():
    return Collect()


def draw(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def weights():
    """Convolution, batch normalisation, and a product with transposed weights."""
    return {
        "kernel": draw(8, 4, 3, 3),
        "bias": draw(8),
        "scale": draw(8),
        "shift": draw(8),
        "mean": draw(8),
        "variance": np.abs(draw(8)) + 0.5,
        "dense": draw(10, 512),
        "last": draw(10),
    }


def model(w, *, constants=()):
    """A classifier; `constants` become Constant nodes."""
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(w[name], name))
        for name in constants
    ]
    nodes += [
        helper.make_node("Conv", ["x", "kernel", "bias"], ["a"], "conv"),
        helper.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"], "bn"),
        helper.make_node("Relu", ["b"], ["c"], "relu"),
        helper.make_node("Flatten", ["c"], ["d"], "flat"),
        helper.make_node("Gemm", ["d", "dense", "last"], ["y"], "gemm", transB=1),
    ]
    initializers = [numpy_helper.from_array(a, name) for name, a in w.items() if name not in constants]
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", X.shape), ("y", (1, 10)))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def built(log, data, *flags):
    builder = trt.Builder(log)
    net, config = builder.create_network(), builder.create_builder_config()
    assert trt.OnnxParser(net, log).parse(data), log.lines
    for flag in flags:
        config.set_flag(flag)
    return builder.build_engine_with_config(net, config)


def parts(engine, log):
    refitter = trt.Refitter(engine, log)
    return refitter, trt.OnnxParserRefitter(refitter, log)


def y(engine):
    return engine.run(x=X)["y"]


@pytest.mark.parametrize("constants", [(), ("kernel", "scale", "dense")], ids=["initializers", "nodes"])
@pytest.mark.parametrize("flags", [(Flag.REFIT,), (Flag.REFIT, Flag.STRIP_PLAN)], ids=["refit", "strip"])
def test_the_weights_of_another_model_take_their_places(log, flags, constants):
    new = weights()
    engine = built(log, model(weights(), constants=constants), *flags)
    refitter, parser = parts(engine, log)
    assert {*refitter.get_all_weights()} == {*new}
    assert parser.refit_from_bytes(model(new, constants=constants))
    assert refitter.refit_cuda_engine()
    assert np.array_equal(y(engine), y(built(log, model(new), Flag.REFIT)))
    np.testing.assert_allclose(y(engine), y(built(log, model(new))), 1e-4, 1e-4)


def test_weights_that_are_held_as_one_are_refitted_together(log):
    old = weights()
    engine = built(log, model(old), Flag.REFIT)
    (refitter, _), before = parts(engine, log), y(engine)
    assert refitter.set_named_weights("variance", 2 * old["variance"])
    missing = refitter.get_missing_weights()
    assert missing
    assert refitter.refit_cuda_engine() is False
    assert log.lines[-1].startswith("[AR844] refit ")
    assert np.array_equal(y(engine), before)
    assert all(refitter.set_named_weights(name, old[name]) for name in missing)
    assert refitter.refit_cuda_engine()
    expected = built(log, model({**old, "variance": 2 * old["variance"]}), Flag.REFIT)
    assert np.array_equal(y(engine), y(expected))


def test_a_stripped_plan_takes_the_weights_of_the_model_that_it_was_built_from(log, tmp_path):
    (tmp_path / "net.onnx").write_bytes(data := model(weights()))
    engine = built(log, data, Flag.STRIP_PLAN)
    refitter, parser = parts(engine, log)
    assert parser.refit_from_file(str(tmp_path / "net.onnx"))
    assert (refitter.get_missing_weights(), refitter.refit_cuda_engine()) == ([], True)
    assert np.array_equal(y(engine), y(built(log, data)))


def test_weights_beside_the_model_are_read_from_its_folder(log, tmp_path):
    new, path = weights(), tmp_path / "net.onnx"
    whole = onnx.load_from_string(model(new))
    onnx.save(whole, path, save_as_external_data=True, location="net.bin", size_threshold=0)
    engine = built(log, model(weights()), Flag.REFIT)
    refitter, parser = parts(engine, log)
    assert parser.refit_from_bytes(path.read_bytes(), str(path))
    assert refitter.refit_cuda_engine()
    assert np.array_equal(y(engine), y(built(log, model(new), Flag.REFIT)))


def test_initializers_may_be_given_one_by_one(log):
    new = weights()
    engine = built(log, model(weights()), Flag.REFIT)
    refitter, parser = parts(engine, log)
    assert parser.load_model_proto(model(weights()))
    assert all(parser.load_initializer(n, a.ctypes.data, a.nbytes) for n, a in new.items())
    assert parser.refit_model_proto()
    assert refitter.refit_cuda_engine()
    assert np.array_equal(y(engine), y(built(log, model(new), Flag.REFIT)))


def wider():
    return {**weights(), "bias": draw(9)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no model", "AR416"),
        (model(wider()), diagnostic("AR843", "bias", 9, "float32", 8, "float32")),
        (
            model({**weights(), "bias": draw(8, dtype=np.float16)}),
            diagnostic("AR843", "bias", 8, "float16", 8, "float32"),
        ),
        (
            model({f"other {n}": a for n, a in weights().items()}),
            diagnostic("AR842", "the model", "bias", "dense", "kernel", "last", "mean"),
        ),
    ],
    ids=["damaged", "count", "type", "names"],
)
def test_models_that_do_not_fit_set_nothing(log, data, message):
    engine = built(log, model(weights()), Flag.REFIT)
    (refitter, parser), before = parts(engine, log), y(engine)
    assert parser.refit_from_bytes(data) is False
    assert parser.num_errors == 1
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(parser.get_error(0).desc())
    assert refitter.get_named_weights("kernel").size == 0
    assert refitter.refit_cuda_engine()
    assert np.array_equal(y(engine), before)


def test_a_missing_model_file_is_reported(log, tmp_path):
    _, parser = parts(built(log, model(weights()), Flag.REFIT), log)
    assert parser.refit_from_file(str(tmp_path / "no.onnx")) is False
    assert parser.get_error(0).code() is trt.ErrorCode.MODEL_DESERIALIZE_FAILED
    parser.clear_errors()
    assert (parser.num_errors, parser.get_error(0)) == (0, None)


@pytest.mark.parametrize("path", ["a\0b", b"no.onnx", "."])
def test_paths_that_name_no_model_are_reported(log, path):
    _, parser = parts(built(log, model(weights()), Flag.REFIT), log)
    assert parser.refit_from_file(path) is False
    assert parser.get_error(0).desc().startswith("[AR416]")
    with pytest.raises(TypeError, match="AR311"):
        parser.refit_from_file(None)


def test_initializers_are_where_there_is_memory(log):
    refitter, parser = parts(built(log, data := model(weights()), Flag.REFIT), log)
    assert parser.load_model_proto(data)
    assert [parser.load_initializer("bias", at, 32) for at in (8, -8, 1 << 70)] == [False] * 3
    assert [line[:7] for line in log.lines] == ["[AR307]"] * 3
    with pytest.raises(TypeError, match="AR311"):
        parser.load_initializer("bias", None, 32)
    assert (parser.refit_model_proto(), refitter.refit_cuda_engine()) == (True, True)


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_models_that_are_cut_set_nothing(log, share):
    engine = built(log, data := model(weights()), Flag.REFIT)
    (refitter, parser), before = parts(engine, log), y(engine)
    assert parser.refit_from_bytes(data[: int(len(data) * share)]) is False
    assert parser.get_error(0).desc().startswith("[AR416]")
    assert [refitter.get_named_weights(n).size for n in refitter.get_all_weights()] == [0] * 8
    assert (refitter.refit_cuda_engine(), np.array_equal(y(engine), before)) == (True, True)


def test_numbers_of_constant_nodes_are_no_weights(log):
    nodes = [
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.float32(2), "two")),
        helper.make_node("Mul", ["x", "two"], ["a"]),
        helper.make_node("Mul", ["a", "w"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, 1, X.shape) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(draw(10), "w")])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    assert trt.Refitter(built(log, data, Flag.REFIT), log).get_all_weights() == ["w"]


def test_arguments_of_wrong_types_are_type_errors(log):
    refitter, parser = parts(built(log, model(weights()), Flag.REFIT), log)
    for call in (
        lambda: trt.OnnxParserRefitter(None, log),
        lambda: trt.OnnxParserRefitter(refitter, None),
        lambda: parser.refit_from_bytes("net.onnx"),
    ):
        with pytest.raises(TypeError, match="AR311"):
            call()
