"""Networks: inputs, outputs, layers and tensors during construction."""

import inspect

import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic

F = trt.float32
UNIFORM = trt.ScaleMode.UNIFORM


def ones(n):
    return np.ones(n, np.float32)


def test_network_counts_what_it_has(net):
    x = net.add_input("x", F, (1, 1, 2, 2))
    layer = net.add_scale(x, UNIFORM, scale=ones(1))
    net.mark_output(layer.get_output(0))
    assert (net.num_inputs, net.num_layers, net.num_outputs, len(net)) == (1, 1, 1, 1)
    assert (net.get_input(0), net.get_layer(0), net.get_output(0)) == (x, layer, layer.get_output(0))
    assert (net.get_input(1), net.get_layer(-1), net.get_output(5)) == (None, None, None)
    assert [*net] == [net[0]] == [layer]
    with pytest.raises(IndexError):
        net[1]


def test_default_names_count_layers(net):
    x = net.add_input("x", F, (1, 1, 2, 2))
    net.add_scale(x, UNIFORM)
    layer = net.add_shuffle(x)
    assert layer.name == "(Unnamed Layer* 1) [Shuffle]"
    assert layer.get_output(0).name == "(Unnamed Layer* 1) [Shuffle]_output"


def test_names_and_metadata_are_assignable(net):
    layer = net.add_shuffle(net.add_input("x", F, (2, 2)))
    layer.name, layer.metadata, layer.get_output(0).name, net.name = "s", "note", "y", "n"
    assert (layer.name, layer.metadata, layer.get_output(0).name, net.name) == ("s", "note", "y", "n")


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 4096])
def test_bad_names_are_rejected(net, log, name):
    assert net.add_input(name, F, (1,)) is None
    assert "AR405" in log.lines[0]


def test_input_names_are_unique(net, log):
    net.add_input("x", F, (1,))
    assert net.add_input("x", F, (1,)) is None
    assert "AR402" in log.lines[0]
    assert "test_network.py:" in log.lines[0]


def test_inputs_reject_sizes_below_minus_1(net, log):
    assert net.add_input("x", F, (1, -2)) is None
    assert "AR120" in log.lines[0]


@pytest.mark.parametrize("args", [(1, F, (1,)), ("x", np.float32, (1,)), ("x", F, 3), ("x", F, (1.5,))])
def test_add_input_raises_type_errors(net, args):
    with pytest.raises(TypeError):
        net.add_input(*args)


def test_more_than_8_dims_is_a_value_error(net):
    with pytest.raises(ValueError, match=diagnostic("AR115", "add_input: shape", 9, 8)):
        net.add_input("x", F, (1,) * 9)


def test_input_shape_and_type_are_assignable(net):
    x = net.add_input("x", F, (2, 3))
    y = net.add_shuffle(x).get_output(0)
    x.shape, x.dtype = (4, -1), trt.float16
    assert (y.shape, y.dtype) == ((4, -1), trt.float16)


def test_shape_of_a_layer_output_cannot_be_assigned(net, log):
    y = net.add_shuffle(net.add_input("x", F, (2, 3))).get_output(0)
    y.shape = (3, 2)
    assert y.shape == (2, 3)
    assert "AR310" in log.lines[0]


def test_changing_a_layer_changes_all_that_follows(net):
    first = net.add_shuffle(net.add_input("x", F, (2, 3)))
    second = net.add_shuffle(first.get_output(0))
    assert second.get_output(0).shape == (2, 3)
    first.reshape_dims = (6,)
    assert second.get_output(0).shape == (6,)
    second.second_transpose = (0,)
    assert second.get_output(0).shape == (6,)


def test_changing_weights_repairs_a_layer(net, log):
    layer = net.add_scale(net.add_input("x", F, (1, 3, 2, 2)), trt.ScaleMode.CHANNEL, scale=ones(2))
    assert layer.get_output(0).shape.rank == -1
    assert "AR102" in log.lines[0]
    layer.scale = ones(3)
    assert layer.get_output(0).shape == (1, 3, 2, 2)


def test_a_mistake_is_logged_once_with_the_line_that_made_it(net, log):
    layer = net.add_resize(net.add_input("x", F, (1, 1, 2, 2)))
    layer.scales = (2, 2)
    after = net.add_shuffle(layer.get_output(0)).get_output(0)
    assert [after.shape.rank, layer.get_output(0).shape.rank, after.shape.rank] == [-1, -1, -1]
    assert len([x for x in log.lines if "AR108" in x and "test_network.py:" in x]) <= 2


def test_strict_raises_when_a_shape_is_read(net):
    layer = net.add_resize(net.add_input("x", F, (1, 1, 2, 2)))
    layer.scales = (2, 2)
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match="AR108"):
        _ = layer.get_output(0).shape


def test_get_output_gives_the_same_object(net):
    layer = net.add_shuffle(net.add_input("x", F, (2, 3)))
    assert layer.get_output(0) is layer.get_output(0)
    assert (layer.get_output(1), layer.get_input(3), layer.num_inputs, layer.num_outputs) == (
        None,
        None,
        1,
        1,
    )


def test_mark_output_of_an_input_is_an_error(net, log):
    net.mark_output(net.add_input("x", F, (1,)))
    assert (net.num_outputs, "AR404" in log.lines[0]) == (0, True)


def test_unmark_output(net, log):
    y = net.add_shuffle(net.add_input("x", F, (1,))).get_output(0)
    net.mark_output(y)
    assert y.is_network_output
    net.unmark_output(y)
    net.unmark_output(y)
    assert (net.num_outputs, "AR407" in log.lines[0]) == (0, True)


def test_marking_twice_warns(net, log):
    y = net.add_shuffle(net.add_input("x", F, (1,))).get_output(0)
    net.mark_output(y)
    net.mark_output(y)
    assert (net.num_outputs, "already" in log.lines[0]) == (1, True)


def test_tensors_of_another_network_are_rejected(net, log):
    other = trt.Builder(log).create_network()
    assert net.add_shuffle(other.add_input("x", F, (1,))) is None
    assert "AR403" in log.lines[0]


def test_remove_tensor_takes_unused_inputs_only(net, log):
    x, unused = net.add_input("x", F, (1,)), net.add_input("u", F, (1,))
    net.add_shuffle(x)
    net.remove_tensor(unused)
    net.remove_tensor(x)
    assert (net.num_inputs, "AR407" in log.lines[0]) == (1, True)


def test_flags_of_a_network(log):
    strong = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    net = trt.Builder(log).create_network(strong)
    assert (net.flags, net.has_implicit_batch_dimension) == (strong, False)
    assert net.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    assert not net.get_flag(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)


def test_shape_outputs_and_debug_tensors_are_marks(net, log):
    x = net.add_input("x", F, (2, 3))
    sizes = net.add_shape(x).get_output(0) if hasattr(net, "add_shape") else x
    assert net.mark_debug(sizes)
    assert net.is_debug_tensor(sizes)
    assert net.unmark_debug(sizes)
    assert not net.is_debug_tensor(sizes)
    assert net.mark_output_for_shapes(x) is False
    assert "AR202" in log.lines[0]


def test_weights_can_be_named(net, log):
    weights = trt.Weights(ones(1))
    net.add_scale(net.add_input("x", F, (1, 1, 2, 2)), UNIFORM, scale=weights)
    assert net.set_weights_name(weights, "w")
    assert net.mark_weights_refittable("w")
    assert net.are_weights_marked_refittable("w")
    assert net.unmark_weights_refittable("w")
    assert not net.are_weights_marked_refittable("w")
    assert net.set_weights_name(ones(1), "v") is False


def test_dynamic_range_is_a_pair_or_none(net, log):
    x = net.add_input("x", trt.int8, (1,))
    x.dynamic_range = (-2, 1.5)
    assert x.dynamic_range == (-2.0, 1.5)
    assert x.set_dynamic_range(3, 1) is False
    assert x.dynamic_range == (-2.0, 1.5)
    x.reset_dynamic_range()
    assert x.dynamic_range is None


def test_tensor_settings(net, log):
    x = net.add_input("x", F, (1, -1))
    x.set_dimension_name(1, "n")
    x.location, x.broadcast_across_batch = trt.TensorLocation.HOST, True
    x.allowed_formats = 0
    assert (x.get_dimension_name(1), x.get_dimension_name(0), x.location) == (
        "n",
        "",
        trt.TensorLocation.HOST,
    )
    assert (x.allowed_formats, x.broadcast_across_batch, "AR304" in log.lines[0]) == (1, True, True)


def test_shape_tensors_are_those_whose_values_are_sizes(net):
    x, n = net.add_input("x", F, (2, 3)), net.add_input("n", trt.int32, (2,))
    net.add_shuffle(x).set_input(1, n)
    assert (n.is_shape_tensor, x.is_shape_tensor) == (True, False)
    assert (n.is_execution_tensor, x.is_execution_tensor) == (False, True)


def test_set_input_makes_shuffle_dynamic_and_reshape_dims_makes_it_static_again(net):
    x, n = net.add_input("x", F, (2, 3)), net.add_input("n", trt.int32, (2,))
    layer = net.add_shuffle(x)
    layer.set_input(1, n)
    assert (layer.num_inputs, layer.get_input(1), layer.get_output(0).shape) == (2, n, (-1, -1))
    layer.reshape_dims = (3, 2)
    assert (layer.num_inputs, layer.get_output(0).shape) == (1, (3, 2))
    assert not n.is_shape_tensor


def test_resize_with_a_second_input_rejects_shape_and_scales(net, log):
    x, n = net.add_input("x", F, (1, 1, 2, 3)), net.add_input("n", trt.int64, (4,))
    layer = net.add_resize(x)
    layer.scales = (1, 1, 2, 2)
    layer.set_input(1, n)
    layer.shape = (1, 1, 4, 4)
    assert (layer.scales, layer.shape.rank, "AR310" in log.lines[0]) == ([], -1, True)


def test_set_input_out_of_range_is_an_error(net, log):
    x = net.add_input("x", F, (2, 3))
    net.add_shuffle(x).set_input(2, x)
    assert "AR312" in log.lines[0]


def test_weak_typing_methods_keep_working(net):
    layer = net.add_shuffle(net.add_input("x", F, (2,)))
    assert (layer.precision_is_set, layer.output_type_is_set(0)) == (False, False)
    layer.precision = trt.float16
    layer.set_output_type(0, trt.int32)
    assert (layer.precision, layer.precision_is_set, layer.get_output_type(0)) == (
        trt.float16,
        True,
        trt.int32,
    )
    assert (layer.output_type_is_set(0), layer.get_output(0).dtype) == (True, trt.int32)
    layer.reset_precision()
    layer.reset_output_type(0)
    assert (layer.precision_is_set, layer.get_output(0).dtype) == (False, F)


def test_strong_typing_rejects_precisions(log):
    net = trt.Builder(log).create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    layer = net.add_shuffle(net.add_input("x", F, (2,)))
    layer.precision = trt.float16
    layer.set_output_type(0, trt.int32)
    assert (layer.precision_is_set, layer.output_type_is_set(0), len(log.lines)) == (False, False, 2)


def test_num_ranks_is_1_or_more(net, log):
    layer = net.add_shuffle(net.add_input("x", F, (2,)))
    layer.num_ranks = 2
    layer.num_ranks = 0
    assert (layer.num_ranks, "AR304" in log.lines[0]) == (2, True)


def test_layer_class_can_be_assigned(net):
    layer = net.add_scale(net.add_input("x", F, (1, 1, 2, 2)), UNIFORM)
    assert type(layer) is trt.IScaleLayer
    layer.__class__ = trt.ILayer
    assert layer.type is trt.LayerType.SCALE
    layer.__class__ = trt.IScaleLayer
    assert layer.mode is UNIFORM


def test_layer_with_a_type_attribute_of_its_own(net):
    layer = net.add_activation(net.add_input("x", F, (1,)), trt.ActivationType.RELU)
    layer.type, layer.alpha = trt.ActivationType.CLIP, 2
    assert (layer.type, layer.alpha) == (trt.ActivationType.CLIP, 2.0)


def test_weights_getters_are_flat_views(net):
    array = np.ones((1, 2), np.float32)
    layer = net.add_scale(net.add_input("x", F, (1, 2, 2, 2)), trt.ScaleMode.CHANNEL, scale=array)
    array[0, 1] = 7
    assert layer.scale.tolist() == [1, 7]
    assert layer.shift.size == 0


def test_permutations_and_dims_show_as_in_tensorrt(net):
    layer = net.add_shuffle(net.add_input("x", F, (2, 3)))
    assert (layer.reshape_dims.rank, list(layer.first_transpose)[:2]) == (-1, [0, 1])
    layer.first_transpose = trt.Permutation([1, 0])
    layer.second_transpose = layer.first_transpose
    assert (len(layer.second_transpose), list(layer.second_transpose)[:3]) == (8, [1, 0, 2])
    assert layer.get_output(0).shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", 1),
        ("mode", trt.PoolingType.MAX),
        ("channel_axis", 1.5),
        ("scale", [1.0]),
        ("scale", np.ones(1, np.complex64)),
    ],
)
def test_attributes_reject_wrong_types(net, name, value):
    layer = net.add_scale(net.add_input("x", F, (1, 1, 2, 2)), UNIFORM)
    with pytest.raises(TypeError, match="AR311"):
        setattr(layer, name, value)


def test_add_methods_have_signatures_and_documentation(net):
    assert list(inspect.signature(net.add_scale_nd).parameters) == [
        *("input", "mode", "shift", "scale", "power", "channel_axis")
    ]
    assert list(inspect.signature(net.add_normalization).parameters)[3] == "axesMask"
    assert net.add_scale.__doc__


def test_add_methods_reject_wrong_arguments(net):
    x = net.add_input("x", F, (1, 1, 2, 2))
    for bad in [(), (x,), (None, UNIFORM), (x, UNIFORM, 1, 2, 3, 4)]:
        with pytest.raises(TypeError):
            net.add_scale(*bad)
    with pytest.raises(TypeError, match="channel_axis"):
        net.add_scale_nd(x, UNIFORM)


def test_error_recorder_of_the_builder_gets_errors_of_the_network(log):
    class Recorder(trt.IErrorRecorder):
        def __init__(self):
            trt.IErrorRecorder.__init__(self)
            self.codes = []

        def report_error(self, code, text):
            self.codes.append(code)
            return False

    builder = trt.Builder(log)
    builder.error_recorder = Recorder()
    builder.create_network().add_input("", F, (1,))
    assert builder.error_recorder.codes == [trt.ErrorCodeTRT.INVALID_STATE]


def test_compute_precision_belongs_to_weak_typing(log):
    net = trt.Builder(log).create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    x, one = net.add_input("x", F, (1, 1, 2, 2)), net.add_input("s", F, (1, 1, 1, 1))
    layer = net.add_normalization(x, one, one, 12)
    layer.compute_precision = trt.float16
    assert (layer.compute_precision, "AR310" in log.lines[0]) == (F, True)


SHAPES = {
    "ALL_REDUCE": (6, 5),
    "ALL_GATHER": (18, 5),
    "BROADCAST": (6, 5),
    "REDUCE": (6, 5),
    "REDUCE_SCATTER": (2, 5),
    "ALL_TO_ALL": (6, 5),
    "GATHER": (18, 5),
    "SCATTER": (2, 5),
}


@pytest.mark.parametrize("groups", [None, [], [4, 1, 2]])
@pytest.mark.parametrize("name", SHAPES)
def test_ranks_of_a_collective_multiply_or_divide_the_first_size(net, name, groups):
    fold = trt.ReduceOperation.SUM if "REDUCE" in name else trt.ReduceOperation.NONE
    root = 1 if name in ("BROADCAST", "REDUCE", "GATHER", "SCATTER") else -1
    x = net.add_input("x", trt.float32, (6, 5))
    layer = net.add_dist_collective(x, trt.CollectiveOperation[name], fold, root, groups)
    layer.num_ranks = 3
    assert tuple(layer.get_output(0).shape) == SHAPES[name]


@pytest.mark.parametrize(
    ("op", "root", "groups", "ranks", "code"),
    [
        ("REDUCE_SCATTER", -1, None, 4, "AR103"),
        ("ALL_TO_ALL", -1, [0, 1, 2, 3], 4, "AR103"),
        ("BROADCAST", 2, None, 2, "AR304"),
        ("BROADCAST", 0, [1, 2], 2, "AR304"),
        ("ALL_GATHER", -1, [0, 1, 2], 2, "AR304"),
        ("ALL_GATHER", -1, [0, 1], 1, "AR304"),
        ("ALL_GATHER", -1, [1, 1], 2, "AR304"),
    ],
)
def test_ranks_that_a_collective_cannot_have_are_rejected(net, log, op, root, groups, ranks, code):
    fold = trt.ReduceOperation.SUM if "REDUCE" in op else trt.ReduceOperation.NONE
    x = net.add_input("x", trt.float32, (6, 5))
    layer = net.add_dist_collective(x, trt.CollectiveOperation[op], fold, root, groups)
    layer.num_ranks = ranks
    assert str(layer.get_output(0).shape) == "(unknown)"
    assert [line[:7] for line in log.lines] == [f"[{code}]"]


def test_the_ranks_of_a_collective_are_fixed_once_there_are_several(net, log):
    total = trt.ReduceOperation.SUM
    x = net.add_input("x", trt.float32, (2,))
    layer = net.add_dist_collective(x, trt.CollectiveOperation.ALL_REDUCE, total, -1, None)
    layer.num_ranks, layer.num_ranks = 1, 2
    layer.num_ranks = 2
    assert log.lines == []
    layer.num_ranks = 3
    assert (layer.num_ranks, "AR310" in log.lines[0]) == (2, True)
