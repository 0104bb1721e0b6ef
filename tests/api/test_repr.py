"""The output of `repr` and of notebooks: one line or a small table, correct, cheap and free of side
effects."""

import numpy as np
import pytest

import anyrt as trt

CLASSES = [
    x
    for x in (getattr(trt, n) for n in dir(trt))
    if isinstance(x, type) and x.__module__.startswith("anyrt") and not issubclass(x, bytearray)
]


def resize(net, shape):
    layer = net.add_resize(net.add_input("x", trt.float32, (1, 3, -1, 8)))
    layer.name, layer.get_output(0).name, layer.shape = "grow", "y", shape
    return layer


def test_network_counts_inputs_layers_and_outputs(net):
    net.name = "tour"
    net.mark_output(resize(net, (1, 3, 4, 4)).get_output(0))
    assert repr(net) == "<INetworkDefinition 'tour': 1 input, 1 layer, 1 output>"


def test_layer_shows_shapes_of_what_it_reads_and_gives(net):
    assert repr(resize(net, (1, 3, 4, 4))) == "<IResizeLayer 'grow': (1, 3, -1, 8) -> (1, 3, 4, 4)>"


def test_layer_says_which_operands_are_missing(net):
    x = net.add_input("x", trt.float32, (2,))
    layer = net.add_slice(x, (0,), (4,), (1,))
    layer.mode, layer.name = trt.SampleMode.FILL, "cut"
    layer.set_input(4, net.add_constant((), np.float32([7])).get_output(0))
    missing = ", ".join(["not connected"] * 3)
    assert repr(layer) == f"<ISliceLayer 'cut': (2,), {missing}, 1 more -> (4,)>"


def test_layer_of_many_inputs_counts_the_rest(net):
    x = net.add_input("x", trt.float32, (2,))
    layer = net.add_concatenation([x] * 40)
    layer.name = "join"
    assert repr(layer) == "<IConcatenationLayer 'join': (2,), (2,), (2,), (2,), 36 more -> (80,)>"


def test_tensor_shows_name_type_and_shape(net):
    assert repr(net.add_input("x", trt.int64, (-1, 2))) == "<ITensor 'x': int64 (-1, 2)>"


def test_long_names_are_cut_and_stay_on_one_line(net):
    tensor = net.add_input("a\n" + "b" * 100, trt.int8, ())
    assert repr(tensor) == "<ITensor 'a\\n" + "b" * 57 + "…': int8 ()>"


def test_repr_logs_no_error_and_reading_the_shape_does(net, log):
    layer = resize(net, (1, 3, 4))
    with trt.strict():
        assert repr(layer.get_output(0)) == "<ITensor 'y': unknown, its layer is incomplete or invalid>"
        assert repr(layer) == "<IResizeLayer 'grow': (1, 3, -1, 8) -> unknown>"
    assert log.lines == []
    assert layer.get_output(0).shape.rank == -1
    assert [line[:7] for line in log.lines] == ["[AR108]"]


def test_repr_after_the_error_was_logged_does_not_log_it_again(net, log):
    output = resize(net, (1, 3, 4)).get_output(0)
    for _ in range(2):
        assert (output.shape.rank, "unknown" in repr(output)) == (-1, True)
    assert len(log.lines) == 1


def test_engine_and_context_show_inputs_and_outputs(engine, context):
    assert repr(engine).startswith("<ICudaEngine 'little': 'x' float32 (1, -1, 2, 2), 'n' int32 (2,) -> ")
    context.set_input_shape("x", (1, 3, 2, 2))
    assert repr(context).startswith("<IExecutionContext of 'little': profile 0, 'x' float32 (1, 3, 2, 2)")


def test_context_shows_itself_when_nothing_else_holds_the_engine(plan, log):
    context = trt.Runtime(log).deserialize_cuda_engine(plan).create_execution_context()
    assert repr(context).startswith("<IExecutionContext of 'little': profile 0, ")


def test_config_shows_profiles_flags_and_what_was_changed(log):
    config = trt.Builder(log).create_builder_config()
    config.builder_optimization_level = 5
    config.set_flag(trt.BuilderFlag.FP16)
    assert repr(config) == "<IBuilderConfig: 0 profiles, flags FP16 TF32, builder_optimization_level = 5>"


def test_profile_shows_ranges(log):
    profile = trt.Builder(log).create_optimization_profile()
    profile.set_shape("x", (1, 3), (4, 3), (8, 3))
    profile.set_shape_input("n", (1,), (2,), (3,))
    want = "'x' (1, 3) to (8, 3), optimum (4, 3), values of 'n' (1,) to (3,), optimum (2,)"
    assert repr(profile) == f"<IOptimizationProfile: {want}>"


@pytest.mark.parametrize(
    ("built", "want"),
    [
        (lambda: trt.Weights(np.zeros(3, np.float16)), "<Weights: float16, 3 elements, 6 bytes>"),
        (lambda: trt.Weights(trt.float32, 8, 1), "<Weights: float32, 1 element, 4 bytes>"),
        (lambda: trt.Logger(trt.Logger.INFO), "<Logger: prints INFO and worse>"),
        (lambda: trt.Builder(trt.Logger()), "<Builder that logs to Logger>"),
        (lambda: trt.Runtime(trt.Logger()), "<Runtime that logs to Logger>"),
        (lambda: trt.IRuntimeConfig(), "<IRuntimeConfig: STATIC>"),
        (lambda: trt.ISerializationConfig(), "<ISerializationConfig: flags none>"),
        (lambda: trt.ITimingCache(), "<ITimingCache: 0 entries>"),
        (lambda: trt.TimingCacheKey("k"), "TimingCacheKey('k')"),
        (lambda: trt.get_plugin_registry(), "<IPluginRegistry: 0 creators>"),
        (lambda: trt.FallbackString("ns"), "<FallbackString 'ns'>"),
        (lambda: trt.Dims((1, -1)), "(1, -1)"),
        (lambda: trt.IHostMemory(b"abc"), "<IHostMemory of 3 bytes>"),
    ],
)
def test_other_objects_say_what_they_are(built, want):
    assert repr(built()) == want


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_repr_of_an_object_without_anything_does_not_raise(cls):
    if not hasattr(cls, "__members__") and not issubclass(cls, trt.TimingCacheValue | trt.InterfaceInfo):
        assert "\n" not in repr(cls.__new__(cls))


def test_network_table_escapes_names_and_marks_outputs(net):
    net.name = "a<b"
    layer = net.add_identity(net.add_input("<script>", trt.float32, (2,)))
    layer.name = "x&y"
    net.mark_output(layer.get_output(0))
    assert net._repr_html_() == (
        "<table><caption>a&lt;b: 1 layer</caption>"
        "<tr><th>layer</th><th>name</th><th>reads</th><th>gives</th></tr>"
        "<tr><td>input</td><td>&lt;script&gt;</td><td></td><td>float32 (2,)</td></tr>"
        "<tr><td>IIdentityLayer</td><td>x&amp;y</td><td>&lt;script&gt;</td>"
        "<td>float32 (2,) (output)</td></tr></table>"
    )


def test_network_table_counts_what_it_leaves_out(net):
    x = net.add_input("x", trt.float32, (2,))
    for _ in range(50):
        x = net.add_identity(x).get_output(0)
    html = net._repr_html_()
    assert (html.count("<tr>"), html.count("… 31 more")) == (22, 1)


def test_network_table_of_a_wrong_network_is_drawn_and_nothing_is_logged(net, log):
    resize(net, (1, 3, 4))
    assert ("incomplete or invalid" in net._repr_html_(), log.lines) == (True, [])


def test_engine_table_shows_tensors_and_their_ranges(engine):
    html = engine._repr_html_()
    assert html.startswith("<table><caption>little: ")
    assert "<td>input</td><td>x</td><td>float32</td><td>(1, -1, 2, 2)</td>" in html
    assert "<td>(1, 1, 2, 2) to (1, 4, 2, 2), optimum (1, 2, 2, 2)</td>" in html


def test_engine_table_counts_layers_and_the_kernels_that_compute_them(net, log):
    net.name = "pair"
    first = net.add_unary(net.add_input("x", trt.float32, (2,)), trt.UnaryOperation.NEG)
    net.mark_output(net.add_unary(first.get_output(0), trt.UnaryOperation.ABS).get_output(0))
    builder = trt.Builder(log)
    plan = builder.build_serialized_network(net, builder.create_builder_config())
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert "<caption>pair: 2 layers, 1 kernel, 1 profile</caption>" in engine._repr_html_()


def test_tables_of_objects_without_anything_fall_back_to_the_line():
    network = object.__new__(trt.INetworkDefinition)
    assert network._repr_html_() == "&lt;INetworkDefinition, not complete&gt;"
