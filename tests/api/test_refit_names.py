"""Refitting by the names of weights, and which weights can be refitted."""

import re

import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic

Flag, Role, HOST = trt.BuilderFlag, trt.WeightsRole, trt.TensorLocation.HOST
X = np.float32([[1, 2, 3, 4]])


class Named:
    """y = x · a + b with these names of weights; those in `marked` can be refitted separately."""

    def __init__(self, log, *flags, marked=(), shared=False, names=("a", "b"), layers=("layer a", "layer b")):
        builder = trt.Builder(log)
        self.a, self.b = (np.full((1, 4), v, np.float32) for v in (2, 1))
        self.b = self.a if shared else self.b
        net, total = builder.create_network(), trt.ElementWiseOperation
        y = net.add_input("x", trt.float32, (1, 4))
        for k, (array, op) in enumerate(((self.a, total.PROD), (self.b, total.SUM))):
            layer = net.add_constant((1, 4), array)
            layer.name = layers[k]
            assert not names or net.set_weights_name(array, names[k])
            y = net.add_elementwise(y, layer.get_output(0), op).get_output(0)
        y.name = "y"
        net.mark_output(y)
        assert all(map(net.mark_weights_refittable, marked))
        config = builder.create_builder_config()
        for flag in flags:
            config.set_flag(flag)
        self.engine = builder.build_engine_with_config(net, config)
        self.refitter = trt.Refitter(self.engine, log)

    @property
    def y(self):
        return self.engine.run(x=X)["y"].tolist()


def row(value):
    return np.full((1, 4), value, np.float32)


def test_weights_are_refitted_by_name(log):
    named = Named(log, Flag.REFIT)
    assert named.refitter.get_all_weights() == ["a", "b"]
    assert named.refitter.set_named_weights("a", row(10))
    assert named.refitter.set_named_weights("b", row(-1), trt.TensorLocation.DEVICE)
    assert named.refitter.refit_cuda_engine()
    assert named.y == [[9, 19, 29, 39]]


def test_one_name_is_enough_where_the_engine_holds_the_others_by_themselves(log):
    named = Named(log, Flag.REFIT)
    assert named.refitter.set_named_weights("b", row(0))
    assert named.refitter.get_missing_weights() == []
    assert named.refitter.refit_cuda_engine()
    assert named.y == [[2, 4, 6, 8]]


def test_layer_and_name_mean_the_same_weights(log):
    named = Named(log, Flag.REFIT)
    assert named.refitter.set_named_weights("a", row(5))
    assert named.refitter.set_weights("layer a", Role.CONSTANT, row(3))
    assert named.refitter.refit_cuda_engine()
    assert named.y == [[4, 7, 10, 13]]


def test_weights_of_one_array_have_one_name_and_change_together(log):
    named = Named(log, Flag.REFIT, shared=True)
    assert named.refitter.get_all_weights() == ["b"]
    assert named.refitter.get_all()[0] == ["layer a", "layer b"]
    assert named.refitter.set_named_weights("b", row(3))
    assert named.refitter.refit_cuda_engine()
    assert named.y == [[6, 9, 12, 15]]


def test_only_marked_weights_are_refitted_one_by_one(log):
    named = Named(log, Flag.REFIT_INDIVIDUAL, marked=["b"])
    assert named.refitter.get_all_weights() == ["b"]
    assert named.refitter.set_named_weights("a", row(3)) is False
    assert log.lines[-1].startswith("[AR842] a ")
    assert named.refitter.set_named_weights("b", row(0))
    assert named.refitter.refit_cuda_engine()
    assert named.y == [[2, 4, 6, 8]]


def test_a_stripped_plan_keeps_weights_that_were_not_marked(log):
    named = Named(log, Flag.REFIT_INDIVIDUAL, Flag.STRIP_PLAN, marked=["b"])
    assert named.refitter.get_missing_weights() == ["b"]
    assert named.refitter.set_named_weights("b", row(5))
    assert named.refitter.refit_cuda_engine()
    assert named.y == [[7, 9, 11, 13]]


def test_weights_that_were_set_are_listed_and_can_be_unset(log):
    refitter, array = Named(log, Flag.REFIT).refitter, row(7)
    assert refitter.get_named_weights("a").size == 0
    assert refitter.set_named_weights("a", array, trt.TensorLocation.DEVICE)
    assert np.shares_memory(refitter.get_named_weights("a").numpy(), array)
    assert refitter.get_weights_location("a") is trt.TensorLocation.DEVICE
    assert (refitter.unset_named_weights("a"), refitter.unset_named_weights("a")) == (True, False)
    assert (refitter.get_named_weights("a").size, refitter.get_weights_location("a")) == (0, HOST)


def test_a_prototype_has_type_and_count_and_no_elements(log):
    refitter = Named(log, Flag.REFIT).refitter
    prototype = refitter.get_weights_prototype("a")
    assert (prototype.dtype, prototype.size, prototype.nbytes) == (trt.float32, 4, 16)
    assert refitter.set_named_weights("a", prototype)
    assert refitter.refit_cuda_engine() is False
    assert log.lines[-1].startswith("[AR307] Weights ")


@pytest.mark.parametrize(
    ("method", "answer"),
    [("get_weights_location", HOST), ("unset_named_weights", False)],
)
def test_unknown_names_are_reported(log, method, answer):
    refitter = Named(log, Flag.REFIT).refitter
    assert getattr(refitter, method)("c") == answer
    assert (refitter.get_named_weights("c").size, refitter.get_weights_prototype("c").size) == (0, 0)
    assert [line[:9] for line in log.lines] == ["[AR842] c"] * 3


@pytest.mark.parametrize(
    ("weights", "got"), [(np.zeros(3, np.float32), (3, "float32")), (np.zeros(4, np.int32), (4, "int32"))]
)
def test_counts_and_types_are_compared_when_weights_are_set(log, weights, got):
    named = Named(log, Flag.REFIT)
    assert named.refitter.set_named_weights("a", weights) is False
    assert re.search(diagnostic("AR843", "a", *got, 4, "float32"), log.lines[-1])
    assert named.refitter.refit_cuda_engine()
    assert named.y == [[3, 5, 7, 9]]


def test_engines_without_ranges_say_so(log):
    refitter = Named(log, Flag.REFIT).refitter
    assert refitter.get_tensors_with_dynamic_range() == []
    assert refitter.set_dynamic_range("x", [-1.0, 1.0]) is False
    assert refitter.get_dynamic_range("x") == (0.0, 0.0)
    assert [line[:9] for line in log.lines] == ["[AR842] x"] * 2


def test_a_refitter_has_settings_and_a_recorder_like_other_objects(log):
    refitter = Named(log, Flag.REFIT).refitter
    assert (refitter.logger, refitter.max_threads, refitter.weights_validation) == (log, 1, True)
    refitter.max_threads, refitter.weights_validation = 4, False
    assert (refitter.max_threads, refitter.weights_validation) == (4, False)
    refitter.set_named_weights("a", row(1))
    assert repr(refitter).endswith(": 1 set of weights pending>")


def test_weights_without_a_name_are_called_by_layer_and_role(log):
    named = Named(log, Flag.REFIT, names=())
    assert named.refitter.get_all_weights() == ["layer a CONSTANT", "layer b CONSTANT"]
    assert named.refitter.set_named_weights("layer a CONSTANT", row(10))
    assert named.refitter.get_weights_prototype("layer b CONSTANT").size == 4
    assert named.refitter.refit_cuda_engine()
    assert named.y == [[11, 21, 31, 41]]


def test_weights_without_a_name_are_marked_by_layer_and_role(log):
    named = Named(log, Flag.REFIT_INDIVIDUAL, names=(), marked=["layer b CONSTANT"])
    assert named.refitter.get_all_weights() == ["layer b CONSTANT"]


def test_a_default_name_of_two_layers_is_rejected(log):
    named = Named(log, Flag.REFIT, names=(), layers=("same", "same"))
    assert named.refitter.set_named_weights("same CONSTANT", row(10)) is False
    assert re.search(diagnostic("AR842", "same CONSTANT", 2), log.lines[-1])
