"""`anyrt exec`: trtexec's options and output lines."""

import json
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import anyrt as trt
from anyrt.cli.exec.build import _pool
from anyrt.cli.exec.flags import FLAGS, read
from anyrt.cli.exec.main import execute
from anyrt.cli.exec.times import Run, percentile, spread, summary
from anyrt.core.errors import AnyrtError
from tests.messages import diagnostic, values_in_order

P = trt.MemoryPoolType
QUICK = ("--iterations=3", "--warmUp=0", "--duration=0")


@pytest.fixture
def model(tmp_path):
    """y = max(x, 0) for x of dynamic length."""
    x, y = (helper.make_tensor_value_info(n, 1, ["n", 3]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    return f"--onnx={tmp_path / 'm.onnx'}"


def test_a_model_is_built_run_and_reported(model, capsys):
    assert execute((model, "--shapes=x:4x3", *QUICK, "--avgRuns=3"), "trtexec") == 0
    out = capsys.readouterr().out
    assert out.startswith("&&&& RUNNING TensorRT.trtexec [TensorRT v101600] [AnyRT] # trtexec --onnx=")
    assert out.rstrip().splitlines()[-1].startswith("&&&& PASSED TensorRT.trtexec [TensorRT v101600]")
    assert re.search(r"\[I\] Throughput: [\d.e+]+ qps\n", out)
    assert re.search(r"\[I\] GPU Compute Time: min = \S+ ms, max = .*percentile\(99%\) = \S+ ms\n", out)
    assert "Average on 3 runs - GPU latency: " in out


def test_engine_is_logged_with_the_name_of_the_model(model, capsys):
    assert execute((model, "--buildOnly"), "trtexec") == 0
    assert "[I] [TRT] loaded engine 'm'\n" in capsys.readouterr().out


def test_json_has_the_figures_and_lines_go_to_stderr(model, capsys):
    assert execute((model, "--shapes=x:4x3", *QUICK, "--percentile=90", "--json"), "anyrt exec") == 0
    out, err = capsys.readouterr()
    results = json.loads(out)
    assert results["inferences"] >= 3
    assert results["build_s"] > 0
    assert results["throughput_qps"] > 0
    latency = results["latency_ms"]
    assert list(latency) == ["min", "max", "mean", "median", "percentile(90%)"]
    assert latency["min"] <= latency["median"] <= latency["max"]
    assert f"Latency: min = {latency['min']:g} ms" in err
    assert err.rstrip().splitlines()[-1].startswith("&&&& PASSED")


def test_json_of_a_failure_is_empty(capsys):
    assert execute(("--onnx=no/such/file.onnx", "--json"), "anyrt exec") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "&&&& FAILED" in err


def test_dynamic_dimensions_default_to_one(model, capsys):
    assert execute((model, *QUICK), "trtexec") == 0
    assert "Created 1x3 float32 for x" in capsys.readouterr().out


def test_profiles_have_the_shapes_behind_their_number(model, tmp_path):
    words = ("--profile=0", "--minShapes=x:1x3", "--maxShapes=x:4x3", "--profile=1", "--optShapes=x:8x3")
    plan, more = tmp_path / "m.plan", ("--skipInference", "--memPoolSize=workspace:1024MiB")
    assert execute((model, f"--saveEngine={plan}", *words, *more), "trtexec") == 0
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan.read_bytes())
    shapes = [[tuple(s) for s in engine.get_tensor_profile_shape("x", i)] for i in (0, 1)]
    assert shapes == [[(1, 3), (4, 3), (4, 3)], [(8, 3)] * 3]


@pytest.mark.parametrize(
    ("size", "count"), [("1024MiB", 1 << 30), ("2KiB", 2048), ("3G", 3 << 30), ("5", 5 << 20)]
)
def test_sizes_of_pools_have_units(size, count):
    config = trt.Builder(trt.Logger()).create_builder_config()
    _pool(config, "workspace", size)
    assert config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE) == count


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("workspace", P.WORKSPACE),
        ("dlaSRAM", P.DLA_MANAGED_SRAM),
        ("dlaLocalDRAM", P.DLA_LOCAL_DRAM),
        ("dlaGlobalDRAM", P.DLA_GLOBAL_DRAM),
        ("tacticSharedMem", P.TACTIC_SHARED_MEMORY),
        ("tacticDRAM", P.TACTIC_DRAM),
        ("TACTICSHAREDMEMORY", P.TACTIC_SHARED_MEMORY),
    ],
)
def test_pools_have_the_names_of_trtexec(name, pool):
    config = trt.Builder(trt.Logger()).create_builder_config()
    _pool(config, name, "1")
    assert config.get_memory_pool_limit(pool) == 1 << 20


def test_values_come_from_files_and_go_to_files(model, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.float32([[-1, 2, -3], [4, -5, 6]]))
    to = tmp_path / "y.json"
    words = (model, "--shapes=x:2x3", f"--loadInputs=x:{tmp_path / 'x.npy'}", f"--exportOutput={to}", *QUICK)
    assert execute((*words, "--dumpOutput"), "trtexec") == 0
    assert json.loads(to.read_text()) == [{"name": "y", "dimensions": "2x3", "values": [0, 2, 0, 4, 0, 6]}]
    assert "\n0 2 0 4 0 6\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["fifo.npy", "fifo.bin"])
def test_values_from_a_fifo_are_rejected_at_once(model, name, tmp_path, capsys):
    os.mkfifo(tmp_path / name)
    assert execute((model, "--shapes=x:2x3", f"--loadInputs=x:{tmp_path / name}", *QUICK), "trtexec") == 1
    assert re.search(values_in_order(name, "prw-r--r--"), capsys.readouterr().err)


def test_a_plan_is_saved_and_loaded(model, tmp_path, capsys):
    plan = tmp_path / "m.plan"
    assert execute((model, f"--saveEngine={plan}", "--skipInference", "--maxShapes=x:8x3"), "trtexec") == 0
    assert execute((f"--loadEngine={plan}", "--shapes=x:8x3", *QUICK), "trtexec") == 0
    assert "Created 8x3 float32 for y" in capsys.readouterr().out


def test_times_and_layers_are_exported(model, tmp_path):
    times, profile, layers = (tmp_path / n for n in ("t.json", "p.json", "l.json"))
    words = (f"--exportTimes={times}", f"--exportProfile={profile}", f"--exportLayerInfo={layers}")
    assert execute((model, *QUICK, *words), "trtexec") == 0
    rows = json.loads(times.read_text())
    assert len(rows) == 3
    assert rows[0]["latencyMs"] == pytest.approx(rows[0]["endComputeMs"] - rows[0]["startComputeMs"])
    count, *information = json.loads(profile.read_text())
    assert count == {"count": 3}
    assert sum(t["percentage"] for t in information) == pytest.approx(100)
    assert [t["name"] for t in information] == json.loads(layers.read_text())["Layers"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--saveDebugTensors=y:y.raw", diagnostic("AR706", "y")),
        (
            "--saveAllDebugTensors=jpeg",
            diagnostic("AR304", "--saveAllDebugTensors", "'jpeg'", "summary", "numpy", "string", "raw"),
        ),
        ("--markDebug=x,yy", diagnostic("AR304", "--markDebug", "'yy'", "y")),
        ("--plugins=libnone.so", diagnostic("AR826", "libnone.so")),
        ("--plugins", diagnostic("AR304", "--plugins")),
        ("--timeRefit", diagnostic("AR841", "--timeRefit", "--refit")),
        ("--dumpRefit", diagnostic("AR841", "--dumpRefit", "--refit")),
        ("--weightStreamingBudget=101%", diagnostic("AR304", "'101%'")),
        ("--useDLACore=0", diagnostic("AR901", "--useDLACore")),
        ("--batch=4", diagnostic("AR901", "--batch", "--shapes")),
        ("--onx=m.onnx", diagnostic("AR304", "--onx", "--onnx")),
        ("--onnx", diagnostic("AR304", "--onnx")),
        ("--iterations=many", diagnostic("AR304", "--iterations", "'many'")),
        ("--shapes=y:1x3", diagnostic("AR506", "y", "x")),
        ("--shapes=x:1xq", diagnostic("AR304", "x:1xq", "NAME:1x3x224x224")),
        ("--memPoolSize=heap:3", diagnostic("AR304", "'heap:3'", "workspace", "dlaSRAM", "tacticSharedMem")),
        ("--percentile=120", diagnostic("AR304", "--percentile", "'120'")),
        ("--inputIOFormats=fp99:chw", diagnostic("AR304", "'fp99:chw'", "fp32")),
        ("--layerPrecisions=a:fp99", diagnostic("AR304", "--layerPrecisions", "'fp99'", "fp32")),
    ],
)
def test_mistakes_are_reported_and_fail(model, word, message, capsys):
    assert execute((model, word, *QUICK) if word != "--iterations=many" else (model, word), "trtexec") == 1
    out, err = capsys.readouterr()
    assert re.search(message, err)
    assert out.rstrip().splitlines()[-1].startswith("&&&& FAILED TensorRT.trtexec")


def test_an_option_without_effect_is_accepted_with_a_notice(model, capsys):
    assert execute((model, "--useCudaGraph", "--device=0", *QUICK), "trtexec") == 0
    assert "--useCudaGraph has no effect: " in capsys.readouterr().out


def test_types_and_formats_of_inputs_can_be_set(model, capsys):
    assert execute((model, "--inputIOFormats=fp16:chw", *QUICK), "trtexec") == 0
    assert "Created 1x3 float16 for x" in capsys.readouterr().out


@pytest.fixture
def products(tmp_path):
    """y = x w for x of dynamic length."""
    x, y = (helper.make_tensor_value_info(n, 1, ["n", d]) for n, d in (("x", 8), ("y", 4)))
    w = numpy_helper.from_array(np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], "g", [x], [y], [w])
    path = tmp_path / "p.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path, numpy_helper.to_array(w)


def outputs_of(path, *words):
    """The outputs of the model for two rows."""
    x = np.random.default_rng(1).standard_normal((2, 8)).astype(np.float32)
    np.save(path.with_name("x.npy"), x)
    to = path.with_name("y.json")
    shown = (f"--loadInputs=x:{path.with_name('x.npy')}", "--shapes=x:2x8", f"--exportOutput={to}", *QUICK)
    assert execute((f"--onnx={path}", *shown, *words), "trtexec") == 0
    return x, np.array(json.loads(to.read_text())[0]["values"]).reshape(2, 4)


def in_codes(x, w, scale):
    steps = np.abs(w).max(0) / 127
    return np.clip(np.rint(x / np.float32(scale)), -128, 127) @ np.rint(w / steps) * steps * scale


def test_a_calibration_cache_gives_int8_its_ranges(products, tmp_path, capsys):
    path, w = products
    cache = tmp_path / "c.cache"
    cache.write_text("TRT-8601-MinMaxCalibration\nx: 3d000000\n")  # 1 / 32
    x, y = outputs_of(path, "--int8", f"--calib={cache}")
    np.testing.assert_allclose(y, in_codes(x, w, 1 / 32), rtol=1e-4)
    assert cache.read_text().endswith("x: 3d000000\n")
    assert "1 in int8" in capsys.readouterr().out


def test_int8_without_a_cache_has_the_ranges_of_trtexec(products, capsys):
    path, w = products
    for word in ("--int8", "--best"):
        x, y = outputs_of(path, word)
        np.testing.assert_allclose(y, in_codes(x, w, 2 / 127), rtol=1e-4)
    assert "[W] [TRT] no --calib: " in capsys.readouterr().out


def test_a_cache_that_is_not_there_means_random_numbers(products, tmp_path, capsys):
    path, _ = products
    shapes = ("--optShapesCalib=x:5x8", "--minShapesCalib=x:1x8", "--maxShapesCalib=x:9x8")
    outputs_of(path, "--int8", f"--calib={tmp_path / 'none'}", *shapes)
    out = capsys.readouterr().out
    assert "none: no such file, " in out
    assert "calibrated 1 tensor with 1 batch" in out
    assert not (tmp_path / "none").exists()


def test_precisions_of_layers_are_orders_where_constraints_are_obeyed(products, capsys):
    path, w = products
    asked = ("--layerPrecisions=product*:fp16", "--layerOutputTypes=product*:fp32")
    x, plain = outputs_of(path, *asked)
    _, obeyed = outputs_of(path, "--precisionConstraints=obey", "--fp16", *asked)
    half = (x.astype(np.float16).astype(float) @ w.astype(np.float16).astype(float)).astype(np.float16)
    np.testing.assert_allclose(plain, x @ w, rtol=1e-5)
    np.testing.assert_allclose(obeyed, half.astype(float), rtol=2**-10)
    assert (obeyed.astype(np.float16).astype(float) == obeyed).all()


def refittable(plan):
    """The engine of a plan, and the names of its refittable weights."""
    logger = trt.Logger(trt.Logger.ERROR)
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan.read_bytes())
    return engine, engine.refittable and trt.Refitter(engine, logger).get_all_weights()


def test_weights_of_a_plan_are_refittable_or_omitted_on_request(products, tmp_path):
    path, _ = products
    plan = tmp_path / "p.plan"
    words = (f"--onnx={path}", f"--saveEngine={plan}", "--skipInference")
    whole, results = [], []
    for more in ((), ("--refit",), ("--refit", "--stripWeights")):
        assert execute((*words, *more), "trtexec") == 0
        whole.append(refittable(plan)[0].get_engine_stat(trt.EngineStat.STRIPPED_WEIGHTS_SIZE))
        results.append(refittable(plan)[1])
    assert (results, whole) == ([False, ["w"], ["w"]], [0, 0, 8 * 4 * 4])


@pytest.mark.parametrize("word", ["--stripWeights", "--weightless", "--stripAllWeights"])
def test_a_stripped_plan_is_not_run_before_it_has_its_weights(word, products, capsys):
    path, _ = products
    assert execute((f"--onnx={path}", word, *QUICK), "trtexec") == 0
    out = capsys.readouterr().out
    assert re.search(r"\[W\].* not run", out)
    assert "Throughput" not in out


def test_a_refit_is_timed_and_gives_a_stripped_plan_its_weights(products, capsys):
    path, w = products
    x, y = outputs_of(path, "--stripAllWeights", "--timeRefit", "--dumpRefit")
    np.testing.assert_allclose(y, x @ w, rtol=1e-5)
    out = capsys.readouterr().out
    assert re.search(r"Engine refitted 10 times: min = [\d.e-]+ ms, max = [\d.e-]+ ms, median = ", out)
    assert re.search(r"Refittable layers and weights:\n.*  w: CONSTANT\n.*  weights w\n", out)


def test_debug_tensors_are_written_on_request(products, tmp_path, monkeypatch):
    path, _ = products
    monkeypatch.chdir(tmp_path)
    words = ("--markDebug=x,y", "--saveDebugTensors=y:seen.raw", "--saveAllDebugTensors=numpy,summary,string")
    x, y = outputs_of(path, *words)
    np.testing.assert_allclose(np.fromfile("seen.raw", np.float32).reshape(2, 4), y)
    assert np.array_equal(np.load("x.npy"), x)
    reported = Path("y.summary.txt").read_text()
    assert reported == f"y: 2x4 float32, min {y.min():g}, max {y.max():g}, mean {y.mean():g}\n"
    np.testing.assert_allclose(np.float64(Path("x.txt").read_text().split()), x.reshape(-1), rtol=1e-5)


def test_stored_tensors_are_debug_tensors_on_request(products, tmp_path, monkeypatch):
    path, _ = products
    monkeypatch.chdir(tmp_path)
    outputs_of(path, "--markUnfusedTensorsAsDebugTensors", "--saveAllDebugTensors=raw")
    assert [p.name for p in tmp_path.glob("*.raw")] == []  # only the output is stored


PLUGIN_NAME = """
    def __init__(self):
        PadCreator.__init__(self)
        self.name = "OtherPad"
"""
PLUGIN = """
import anyrt as trt
from tests.plugins.samples import PadCreator

class Creator(PadCreator):
    pass
"""


def test_libraries_of_plugins_are_there_while_a_command_runs(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "other.py").write_text(PLUGIN.replace("    pass", PLUGIN_NAME))
    x, y = (helper.make_tensor_value_info(n, 1, [1, 1, 2, 2]) for n in "xy")
    node = helper.make_node("CircPad", ["x"], ["y"], pads=[0, 0, 0, 0], domain="mine")
    graph = helper.make_graph([node], "g", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "m.onnx")
    words = [f"--{n}={tmp_path / 'mine.py'}" for n in ("plugins", "setPluginsToSerialize")]
    words.append(f"--dynamicPlugins={tmp_path / 'other.py'}")
    assert execute((f"--onnx={tmp_path / 'm.onnx'}", *words, *QUICK), "trtexec") == 0
    assert "plugins_to_serialize has no effect" in capsys.readouterr().out
    assert trt.get_plugin_registry().get_creator("CircPad", "1") is None


@pytest.mark.parametrize(
    ("word", "message"),
    [("--calibProfile=3", "AR304"), ("--calib=m.txt", "AR332"), ("--optShapesCalib=z:1x3", "AR506")],
)
def test_impossible_calibration_is_reported(products, tmp_path, word, message, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.txt").write_text("no cache")
    assert execute((f"--onnx={products[0]}", "--int8", word, *QUICK), "trtexec") == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", FLAGS)
def test_every_option_says_what_it_does_or_why_it_does_nothing(name):
    flag = FLAGS[name]
    assert bool(flag.help) != bool(flag.why)
    if flag.refused:
        with pytest.raises(AnyrtError, match=f"AR901.*--{name}.*; "):
            read([f"--{name}=1"])


def test_percentiles_are_nearest_ranks():
    values = [float(v) for v in range(1, 101)]
    assert [percentile(values, p) for p in (0, 1, 50, 90, 99, 100)] == [1, 1, 50, 90, 99, 100]
    assert (
        spread([1.0, 3.0], [50])
        == "min = 1 ms, max = 3 ms, mean = 2 ms, median = 2 ms, percentile(50%) = 1 ms"
    )


def test_throughput_is_runs_by_wall_time():
    runs = [Run(i * 10.0, i * 10.0 + 1, i * 10.0 + 10) for i in range(100)]
    assert "Throughput: 100 qps" in summary(runs, [99])


@pytest.mark.parametrize("words", [("--onnx=nofile.onnx",), ("--loadEngine=nofile.plan",), ("--nofile",)])
def test_an_error_is_logged_once(words, capsys):
    assert execute(words, "anyrt exec") == 1
    assert capsys.readouterr().err.count("nofile") == 1
