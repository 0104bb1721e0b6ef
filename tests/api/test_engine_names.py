"""The value of each member of an engine, its serialization and deserialization, and where its errors are
reported."""

import gc
import io
import json
import weakref

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of

Format = trt.LayerInformationFormat


class Recorder(trt.IErrorRecorder):
    def __init__(self):
        trt.IErrorRecorder.__init__(self)
        self.errors = []

    def report_error(self, arg0, arg1):
        self.errors.append((arg0, arg1))
        return True

    def get_num_errors(self):
        return len(self.errors)

    def get_error_code(self, arg0):
        return self.errors[arg0][0]

    def get_error_desc(self, arg0):
        return self.errors[arg0][1][: self.MAX_DESC_LENGTH]

    def has_overflowed(self):
        return False

    def clear(self):
        self.errors.clear()


@pytest.fixture
def typed(log):
    """An engine that copies one input of every element type to an output."""
    builder = trt.Builder(log)
    network = builder.create_network()
    network.name = "typed"
    for dtype in TYPES:
        layer = network.add_identity(network.add_input(f"{dtype.name} in", dtype, (2, 3)))
        layer.get_output(0).name = f"{dtype.name} out"
        network.mark_output(layer.get_output(0))
    return builder.build_engine_with_config(network, builder.create_builder_config())


TYPES = {
    trt.float32: "FP32",
    trt.float16: "FP16",
    trt.bfloat16: "BFloat16",
    trt.int8: "Int8",
    trt.int32: "INT32",
    trt.int64: "Int64",
    trt.bool: "Bool",
    trt.fp8: "FP8",
    trt.int4: "Int4",
}


def test_an_engine_lists_inputs_then_outputs(typed):
    names = [f"{t.name} {side}" for side in ("in", "out") for t in TYPES]
    assert (typed.name, typed.num_io_tensors, typed.num_layers) == ("typed", 2 * len(TYPES), len(TYPES))
    assert [*typed] == [typed[i] for i in range(len(names))] == names
    assert [typed.get_tensor_name(i) for i in (0, len(names) - 1, len(names), -1)] == [
        names[0],
        names[-1],
        None,
        None,
    ]
    assert typed.num_optimization_profiles == 1


@pytest.mark.parametrize("dtype", TYPES)
def test_an_engine_knows_types_modes_and_layouts(typed, dtype):
    name = f"{dtype.name} out"
    held = trt.float32 if dtype is trt.fp8 else dtype  # fp8 outputs hold numbers in a weakly typed network
    assert typed.get_tensor_dtype(name) is held
    assert typed.get_tensor_mode(name) is trt.TensorIOMode.OUTPUT
    assert typed.get_tensor_shape(name) == (2, 3)
    assert typed.get_tensor_format(name) is trt.TensorFormat.LINEAR
    assert typed.get_tensor_format_desc(name) == f"Row major linear {TYPES[held]} format (kLINEAR)"
    assert typed.get_tensor_profile_shape(f"{dtype.name} in", 0) == [(2, 3)] * 3


QUERIES = {
    "get_tensor_dtype": trt.float32,
    "get_tensor_location": trt.TensorLocation.DEVICE,
    "get_tensor_mode": trt.TensorIOMode.NONE,
    "get_tensor_format": trt.TensorFormat.LINEAR,
    "get_tensor_format_desc": "",
    "get_tensor_bytes_per_component": -1,
    "get_tensor_components_per_element": -1,
    "get_tensor_vectorized_dim": -1,
    "is_shape_inference_io": False,
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_an_unknown_name_has_a_sentinel_and_is_reported(engine, log, query):
    engine.error_recorder = recorder = Recorder()
    assert getattr(engine, query)("q") == QUERIES[query]
    assert (recorder.num_errors(), "AR706" in recorder.get_error_desc(0)) == (1, True)
    assert "q" in log.lines[0]


@pytest.mark.parametrize("query", [q for q in QUERIES if "format" in q or "per" in q or "vector" in q])
def test_a_layout_needs_a_profile_that_exists(engine, log, query):
    assert getattr(engine, query)("x", 1) == getattr(engine, query)("x", 0) == getattr(engine, query)("x")
    assert log.lines == []
    getattr(engine, query)("x", 2)
    assert "AR507" in log.lines[0]


def test_profiles_determine_the_largest_size_of_outputs(log):
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (-1, 3))
    joined = network.add_concatenation([x, x]).get_output(0)
    for name, tensor in (("twice", joined), ("found", network.add_non_zero(x).get_output(0))):
        tensor.name = name
        network.mark_output(tensor)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 3), (2, 3), (8, 3))
    config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(network, config)
    assert engine.get_tensor_profile_shape("twice", 0) == [(2, 3), (4, 3), (16, 3)]
    assert engine.get_tensor_profile_shape("found", 0) == [(2, 3), (2, 6), (2, 24)]


def test_profiles_of_unknown_tensors_and_numbers_are_empty_or_rejected(engine, log):
    assert engine.get_tensor_profile_shape("q", 0) == engine.get_tensor_profile_shape("x", 9) == []
    assert [line[1:6] for line in log.lines] == ["AR706", "AR507"]
    with pytest.raises(RuntimeError, match=r"AR706.*get_tensor_profile_values"):
        engine.get_tensor_profile_values(0, "s")
    with pytest.raises(TypeError):
        engine.get_tensor_profile_values("n", 0)


@pytest.mark.parametrize("count", [16, 1000])
def test_the_weights_of_an_engine_are_counted(log, count):
    builder = trt.Builder(log)
    network = builder.create_network()
    values = network.add_constant((count,), np.arange(count, dtype=np.float32)).get_output(0)
    x = network.add_input("x", trt.float32, (count,))
    network.mark_output(network.add_elementwise(x, values, trt.ElementWiseOperation.SUM).get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    size = engine.get_engine_stat(trt.EngineStat.TOTAL_WEIGHTS_SIZE)
    assert 4 * count <= size < 4 * count + 64
    assert (engine.get_engine_stat(), engine.get_engine_stat(trt.EngineStat.STRIPPED_WEIGHTS_SIZE)) == (
        size,
        0,
    )
    with pytest.raises(TypeError, match="EngineStat"):
        engine.get_engine_stat(0)


@pytest.mark.parametrize("name", ["weight_streaming_budget_v2", "weight_streaming_budget"])
def test_an_engine_built_without_weight_streaming_takes_no_budget(engine, log, name):
    setattr(engine, name, 9)
    assert "AR304" in log.lines[0]
    assert (engine.weight_streaming_budget_v2, engine.weight_streaming_budget) == (0, -1)
    assert (engine.streamable_weights_size, engine.get_weight_streaming_automatic_budget()) == (0, 0)


@pytest.mark.parametrize(
    ("name", "constant", "reason"),
    [
        ("has_implicit_batch_dimension", False, "batch dimensions are explicit"),
        ("engine_capability", trt.EngineCapability.STANDARD, "only supported"),
        ("hardware_compatibility_level", trt.HardwareCompatibilityLevel.NONE, "every processor"),
        ("tactic_sources", 0, "none"),
        ("num_aux_streams", 0, "auxiliary streams: 0"),
        ("refittable", False, "replace weights"),
        ("streamable_weights_size", 0, "0 without"),
        ("minimum_weight_streaming_budget", 0, "minimum"),
        ("weight_streaming_scratch_memory_size", 0, "0 if all weights"),
    ],
)
def test_what_is_the_same_for_every_engine_says_why(engine, name, constant, reason):
    assert getattr(engine, name) == constant
    assert reason in getattr(trt.ICudaEngine, name).__doc__
    with pytest.raises(AttributeError):
        setattr(engine, name, constant)


# ---- inspecting ------------------------------------------------------------------------------------------


def test_an_inspector_shows_the_shapes_of_its_context(engine, context):
    inspector = engine.create_engine_inspector()

    def shape_of_x():
        first = json.loads(inspector.get_engine_information(Format.JSON))["Layers"][0]
        return first["Inputs"][0]["Dimensions"]

    assert shape_of_x() == [1, -1, 2, 2]
    context.set_input_shape("x", (1, 3, 2, 2))
    inspector.execution_context = context
    assert shape_of_x() == [1, 3, 2, 2]
    inspector.execution_context = None
    assert shape_of_x() == [1, -1, 2, 2]
    with pytest.raises(TypeError, match="IExecutionContext"):
        inspector.execution_context = engine


def test_an_inspector_lists_what_the_engine_lists(engine):
    whole = json.loads(engine.create_engine_inspector().get_engine_information(Format.JSON))
    assert whole["Bindings"] == [*engine]
    assert [layer["Name"] for layer in whole["Layers"]] == [*state_of(engine).loaded.program.kernels]
    assert len(whole["Layers"]) == engine.num_layers


def test_lines_and_json_describe_a_layer_equally(engine):
    inspector = engine.create_engine_inspector()
    for index in range(engine.num_layers):
        line = inspector.get_layer_information(index, Format.ONELINE)
        information = json.loads(inspector.get_layer_information(index, Format.JSON))
        assert line.startswith(
            f"Name: {information['Name']}, LayerType: {information['LayerType']}, Inputs: ["
        )
        assert line in inspector.get_engine_information(Format.ONELINE).splitlines()


def test_an_inspector_reports_layers_that_are_not_there(engine, log):
    inspector = engine.create_engine_inspector()
    inspector.error_recorder = recorder = Recorder()
    assert inspector.get_layer_information(engine.num_layers, Format.ONELINE) == ""
    assert inspector.get_layer_information(-1, Format.ONELINE) == ""
    assert [code for code, _ in recorder.errors] == [trt.ErrorCodeTRT.INVALID_ARGUMENT] * 2
    with pytest.raises(TypeError):
        inspector.get_engine_information("json")


# ---- serializing -----------------------------------------------------------------------------------------


def test_plans_are_written_to_files_and_read_from_them(engine, plan, log, tmp_path):
    with (tmp_path / "engine.plan").open("wb") as file:
        file.write(engine.serialize())
    content = (tmp_path / "engine.plan").read_bytes()
    assert (content == bytes(plan), engine.serialize().nbytes) == (True, len(content))
    assert engine.serialize().dtype is trt.int8
    again = trt.Runtime(log).deserialize_cuda_engine(content)
    x = np.ones((1, 1, 2, 2), np.float32)
    assert again.run(x=x, n=np.int32([4, 1]))["y"].tolist() == (2 * x + 1).tolist()


@pytest.mark.parametrize("flag", [*trt.SerializationFlag])
def test_serialization_flags_are_bits(engine, flag):
    config = engine.create_serialization_config()
    assert (config.flags, config.set_flag(flag), config.flags) == (0, True, 1 << int(flag))
    assert [f for f in trt.SerializationFlag if config.get_flag(f)] == [flag]
    assert (config.clear_flag(flag), config.flags) == (True, 0)
    config.flags = 7
    assert config.get_flag(flag)
    with pytest.raises(TypeError):
        config.set_flag(int(flag))


@pytest.mark.parametrize("flag", [*trt.SerializationFlag])
def test_engines_that_keep_their_weights_have_plans_with_them_alone(engine, plan, log, flag):
    config = engine.create_serialization_config()
    config.set_flag(flag)
    memory = engine.serialize_with_config(config)
    if flag is trt.SerializationFlag.EXCLUDE_WEIGHTS:
        assert (memory, "AR841" in log.lines[0]) == (None, True)
    else:
        assert bytes(memory) == bytes(plan)
    with pytest.raises(TypeError):
        engine.serialize_with_config(None)


class Reader(trt.IStreamReaderV2):
    """Returns a few bytes at a time."""

    def __init__(self, data):
        trt.IStreamReaderV2.__init__(self)
        self.file, self.asked = io.BytesIO(data), []

    def read(self, num_bytes, stream):
        self.asked.append(num_bytes)
        return self.file.read(min(num_bytes, 1000))

    def seek(self, offset, where):
        raise AssertionError("plans are read from front to back")


def test_a_stream_reader_is_not_read_beyond_the_plan(plan, log):
    reader, size = Reader(bytes(plan) + b"what follows"), len(bytes(plan))
    assert trt.Runtime(log).deserialize_cuda_engine(reader).name == "little"
    assert reader.asked == [128, *range(size - 128, 0, -1000)]
    assert reader.file.read() == b"what follows"
    assert "`seek` is never called" in trt.IStreamReaderV2.__doc__


def test_a_stream_reader_that_ends_early_or_raises_gives_no_engine(plan, log, capsys):
    runtime = trt.Runtime(log)
    assert runtime.deserialize_cuda_engine(Reader(bytes(plan)[:-1])) is None
    assert runtime.deserialize_cuda_engine(trt.IStreamReader()) is None
    assert ["AR601" in line for line in log.lines] == [True, True]
    assert "must override read" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["text", None, 3])
def test_a_stream_reader_without_bytes_is_an_error(log, value):
    class Wrong(trt.IStreamReader):
        def read(self, size):
            return value

    assert trt.Runtime(log).deserialize_cuda_engine(Wrong()) is None
    assert log.lines[0].startswith("[AR311] stream reader")


# ---- errors and lifetimes --------------------------------------------------------------------------------


def test_errors_reach_the_recorder_of_the_nearest_parent(plan, log):
    runtime, outer, inner = trt.Runtime(log), Recorder(), Recorder()
    runtime.error_recorder = outer
    engine = runtime.deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    assert not context.execute_async_v3(0)
    engine.error_recorder = inner
    assert not context.execute_async_v3(0)
    assert (outer.num_errors(), inner.num_errors()) == (1, 1)
    assert inner.get_error_code(0) is trt.ErrorCodeTRT.INVALID_ARGUMENT
    engine.error_recorder = None
    assert not context.execute_async_v3(0)
    assert (outer.num_errors(), inner.num_errors(), runtime.error_recorder) == (2, 1, outer)


def test_a_recorder_that_raises_is_printed_and_survived(engine, log, capsys):
    engine.error_recorder = trt.IErrorRecorder()
    assert engine.get_tensor_mode("q") is trt.TensorIOMode.NONE
    assert "must override report_error" in capsys.readouterr().err
    assert "AR706" in log.lines[0]


def test_an_engine_lives_as_long_as_its_contexts(plan, log):
    runtime = trt.Runtime(log)
    engine = runtime.deserialize_cuda_engine(plan)
    context, watched = engine.create_execution_context(), [weakref.ref(runtime), weakref.ref(engine)]
    del runtime, engine
    gc.collect()
    assert [w() is not None for w in watched] == [True, True]
    assert context.engine.name == "little"
    del context
    gc.collect()
    assert [w() is None for w in watched] == [True, True]


def test_with_gives_the_object_warns_and_ends_nothing(engine, context, log, plan):
    builder = trt.Builder(log)
    built = [builder, builder.create_builder_config(), builder.create_network(), trt.Runtime(log)]
    for one in (*built, engine, context, plan, log):
        with pytest.warns(DeprecationWarning, match="does nothing"), one as same:
            assert same is one
    assert engine.create_execution_context() is not None
