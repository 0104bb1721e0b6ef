"""Shared objects register plug-ins by a table of functions; invalid tables are rejected."""

import ctypes
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.plugins import native, table
from anyrt.backends.cpu.device import CpuDevice
from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.processors import host
from anyrt.codegen.llvm import compile_text
from anyrt.core.enums import DimensionOperation
from anyrt.core.errors import PluginError
from anyrt.plan.program import Compiled, Program
from tests.messages import diagnostic
from tests.plugins.samples import built

HEADER = files("anyrt.plugin") / "anyrt_plugin.h"
EXAMPLE = Path(__file__).parents[2] / "examples/scaled.c"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler, cc")


def compiled(text, folder, name="libmine.so"):
    (folder / "mine.c").write_text(text)
    words = ("cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{HEADER.parent}", "mine.c", "-o", name)
    subprocess.run(words, cwd=folder, check=True)
    return str(folder / name)


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    return compiled(EXAMPLE.read_text(), tmp_path_factory.mktemp("scaled"))


@pytest.fixture
def load(registry):
    """Loads libraries, and deregisters them after the test."""
    handles = []

    def loaded(path):
        handles.append(registry.load_library(path))
        return handles[-1]

    yield loaded
    for handle in handles:
        if handle in registry._libraries:
            registry.deregister_library(handle)


def field(value, name="factor"):
    result = trt.PluginField(name, np.array([value], np.float32), trt.PluginFieldType.FLOAT32)
    return trt.PluginFieldCollection([result])


def layers(registry, value, count=1, name="Scaled", space="example"):
    """An engine with a chain of plug-ins."""

    def describe(network, x):
        for _ in range(count):
            creator = registry.get_creator(name, "1", space)
            plugin = creator.create_plugin("scaled", field(value), trt.TensorRTPhase.BUILD)
            x = network.add_plugin_v3([x], [], plugin).get_output(0)
        return x

    return describe


@needs_cc
@pytest.mark.parametrize("shape", [(2, 3), (7,), (0, 4), (), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_a_plugin_in_c_computes_in_a_network_with_layers_around_it(shape, scaled, load, registry, log):
    load(scaled)
    engine = built(log, layers(registry, 3.0), shape)
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    assert (engine.run(x=x)["y"] == 3 * x).all()
    assert log.lines == []


@needs_cc
def test_a_plugin_in_c_supports_dynamic_shapes_and_half_types_by_casts(scaled, load, registry, log):
    load(scaled)
    engine = built(log, layers(registry, 0.5, 2), (1, 2), (3, 2), (9, 2), dtype=trt.float16)
    for n in (9, 1, 3):
        x = np.arange(2 * n, dtype=np.float16).reshape(n, 2)
        assert (engine.run(x=x)["y"] == x / 4).all()


@needs_cc
def test_a_plan_restores_a_plugin_in_c_from_its_fields(scaled, load, registry, log):
    handle = load(scaled)
    plan = built(log, layers(registry, 5.0), (4,)).serialize()
    registry.deregister_library(handle)
    with trt.strict(), pytest.raises(PluginError, match=r"AR823.*'Scaled', version '1', namespace 'example'"):
        trt.Runtime(log).deserialize_cuda_engine(plan)
    load(scaled)
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert engine.run(x=np.ones(4, np.float32))["y"].tolist() == [5] * 4


@needs_cc
def test_a_library_cannot_be_loaded_or_deregistered_twice(scaled, load, registry):
    handle = load(scaled)
    with trt.strict(), pytest.raises(PluginError, match=r"AR821.*'Scaled'"):
        registry.load_library(scaled)
    registry.deregister_library(handle)
    assert registry.get_creator("Scaled", "1", "example") is None
    with trt.strict(), pytest.raises(PluginError, match=r"AR823.*libmine.so"):
        registry.deregister_library(handle)


@needs_cc
def test_a_creator_in_c_reports_why_fields_are_invalid(scaled, load, registry):
    load(scaled)
    creator = registry.get_creator("Scaled", "1", "example")
    assert [f.name for f in (creator.field_names[k] for k in range(1))] == ["factor"]
    with pytest.raises(PluginError, match=diagnostic("AR824", "Scaled.create", "factor", "float32")):
        creator.create_plugin("s", field(1, "fact"), trt.TensorRTPhase.BUILD)


# Its output has as many elements as those of x that are above 0, and a size tensor; it writes bytes to plans.
FOUND = """
static void *create(const AnyrtField *f, int32_t n) { float *s = malloc(4); memcpy(s, f->data, 4); return s; }
static void *restore(const void *data, int64_t n) { float *s = malloc(4); memcpy(s, data, 4); return s; }
static int64_t serialize(void *s, void *to, int64_t room) { if (room >= 4) memcpy(to, s, 4); return 4; }
static int32_t count(void *s) { return 2; }
static int32_t types(void *s, const int32_t *in, int32_t n, int32_t *out, int32_t m) {
  out[0] = ANYRT_INT64, out[1] = ANYRT_INT32;
  return 0;
}
static int32_t shapes(void *s, const AnyrtSizes *z, const AnyrtShape *in, int32_t n, const AnyrtSize *v,
                      int32_t k, AnyrtShape *out, int32_t m) {
  AnyrtSize half = z->operation(z->builder, ANYRT_CEIL_DIV, in->dims[0], z->constant(z->builder, 2));
  out[0].rank = 1, out[1].rank = 0;
  out[0].dims[0] = z->declare(z->builder, 1, half, in->dims[0]);
  return 0;
}
static int32_t supports(void *s, int32_t at, const AnyrtTensor *t, int32_t n, int32_t m) {
  return t[at].format == ANYRT_LINEAR && t[at].type == (at == 0 ? ANYRT_FLOAT : at == 1 ? ANYRT_INT64 : 3);
}
static int64_t room(void *s, const AnyrtTensor *in, int32_t n, const AnyrtTensor *out, int32_t m) {
  return 8 * in->dims[0];
}
static int32_t enqueue(void *s, const AnyrtTensor *in, int32_t n, const AnyrtTensor *out, int32_t m,
                       const void *const *from, void *const *to, void *work, void *stream) {
  int64_t found = 0;
  for (int64_t i = 0; i < in->dims[0]; i++)
    if (((const float *)from[0])[i] > *(float *)s) ((int64_t *)work)[found++] = i;
  memcpy(to[0], work, 8 * found);
  *(int32_t *)to[1] = found;
  return found == 3 ? 77 : 0;
}
static const char *why(void *s) { return "three is too many"; }
static const AnyrtPlugin plugin = {"Found", "1", "", NULL, 0, create, free, serialize, restore, why, count,
  types, shapes, supports, NULL, room, NULL, enqueue};
"""
START = "#include <stdlib.h>\n#include <string.h>\n#include <anyrt_plugin.h>\n"
END = """const AnyrtPluginTable *anyrt_plugin_table(void) {
  static const AnyrtPluginTable table = {ANYRT_PLUGIN_VERSION, sizeof(AnyrtPlugin), &plugin, 1};
  return &table;
}"""


# Adds the number of its tactic, of which 5 is the fastest; counts in its first output how often each ran.
TACTICS = """
#include <unistd.h>
#define MAYBE __attribute__((unused))
static int32_t ran;
static void *create(const AnyrtField *f, int32_t n) { return calloc(1, 4); }
static int32_t count(void *s) { return 1; }
static int32_t types(void *s, const int32_t *in, int32_t n, int32_t *out, int32_t m) {
  out[0] = in[0];
  return 0;
}
static int32_t shapes(void *s, const AnyrtSizes *z, const AnyrtShape *in, int32_t n, const AnyrtSize *v,
                      int32_t k, AnyrtShape *out, int32_t m) {
  out[0] = in[0];
  return 0;
}
static int32_t tactics(void *s, int32_t *to, int32_t room) {
  for (int32_t k = 0; k < room; k++) to[k] = 4 + k;
  return 3;
}
MAYBE static int32_t choose(void *s, int32_t tactic) { *(int32_t *)s = tactic; return tactic > 9; }
MAYBE static const char *id(void *s) { return "adds"; }
static int32_t enqueue(void *s, const AnyrtTensor *in, int32_t n, const AnyrtTensor *out, int32_t m,
                       const void *const *from, void *const *to, void *work, void *stream) {
  usleep(*(int32_t *)s == 5 ? 0 : 3000);
  ((float *)to[0])[0] = *(int32_t *)s;
  ((float *)to[0])[1] = ++ran;
  return 0;
}
static const AnyrtPlugin plugin = {"Found", "1", "", NULL, 0, create, free, NULL, NULL, NULL, count, types,
  shapes, NULL, NULL, NULL, NULL, enqueue, tactics, choose, id};
"""


def one_output(registry):
    def describe(network, x):
        creator = registry.get_creator("Found", "1")
        plugin = creator.create_plugin("f", trt.PluginFieldCollection([]), trt.TensorRTPhase.BUILD)
        return network.add_plugin_v3([x], [], plugin).get_output(0)

    return describe


@needs_cc
@pytest.mark.parametrize("text", ["adds", None])
def test_the_fastest_tactic_in_c_is_selected_and_cached(text, load, registry, log, tmp_path):
    named = "choose, id" if text else "choose, NULL"
    load(compiled(START + TACTICS.replace("choose, id", named) + END, tmp_path))
    builder, ran = trt.Builder(log), []
    cache = builder.create_builder_config().create_timing_cache(b"")
    for _ in range(2):
        network, config = builder.create_network(), builder.create_builder_config()
        config.set_timing_cache(cache, False)
        y = one_output(registry)(network, network.add_input("x", trt.float32, (2,)))
        y.name = "y"
        network.mark_output(y)
        tactic, count = builder.build_engine_with_config(network, config).run(x=np.zeros(2, np.float32))["y"]
        ran.append(count - sum(ran))
        assert tactic == 5
    assert ran == ([10, 1] if text else [10, 10])


@needs_cc
@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("return 3;", "return room ? 2 : 3;", diagnostic("AR824", "Found.tactics", "libmine.so", 2, 3)),
        ("return 3;", "return -3;", diagnostic("AR824", "Found.tactics", -3)),
        ("= 4 + k", "= 4", diagnostic("AR822", [4, 4, 4], "Found.get_valid_tactics")),
        ("= 4 + k", "= k", diagnostic("AR822", 0, "Found.get_valid_tactics", 1, 2**31 - 1)),
        ("tactic > 9", "tactic > 4", diagnostic("AR824", "Found.choose", "libmine.so", 1)),
        ("choose, id", "NULL, id", diagnostic("AR826", "libmine.so", "Found", "tactics", "choose")),
    ],
)
def test_invalid_tactics_in_c_are_reported(right, wrong, message, load, registry, log, tmp_path):
    assert right in TACTICS
    path = compiled(START + TACTICS.replace(right, wrong) + END, tmp_path)

    def used():
        load(path)
        built(log, one_output(registry), (2,))

    with trt.strict(), pytest.raises(PluginError, match=message):
        used()


def two_outputs(registry):
    def describe(network, x):
        plugin = registry.get_creator("Found", "1").create_plugin("f", field(0.5), trt.TensorRTPhase.BUILD)
        layer = network.add_plugin_v3([x], [], plugin)
        return [layer.get_output(0), layer.get_output(1)]

    return describe


@needs_cc
def test_a_plugin_in_c_has_a_size_tensor_a_workspace_and_serialization(load, registry, log, tmp_path):
    load(compiled(START + FOUND + END, tmp_path))
    engine = built(log, two_outputs(registry), (1,), (4,), (8,))
    for values in ([1, 0, 2], [0.4, 0.6], [0, 0, 0, 0, 0, 0, 0, 0], [1] * 8):
        out = engine.run(x=np.float32(values))
        assert out["y"].tolist() == np.flatnonzero(np.float32(values) > 0.5).tolist()
        assert int(out["y1"]) == sum(np.float32(values) > 0.5)


@needs_cc
def test_a_failure_in_c_is_reported_and_the_next_inference_works(load, registry, log, tmp_path):
    load(compiled(START + FOUND + END, tmp_path))
    engine = built(log, two_outputs(registry), (1,), (4,), (8,))
    with (
        trt.strict(),
        pytest.raises(PluginError, match=diagnostic("AR824", "Found.enqueue", 77, "three is too many")),
    ):
        engine.run(x=np.float32([1, 1, 1]))
    assert engine.run(x=np.float32([1, 1]))["y"].tolist() == [0, 1]


WRONG = [
    ("= ANYRT_INT64, out", "= 99, out", diagnostic("AR824", "Found.output_types", 99)),
    ("out[1].rank = 0", "out[1].rank = 9", diagnostic("AR824", "Found.output_shapes", 9)),
    ("z->constant(z->builder, 2)", "41", diagnostic("AR822", "AnyrtSizes", 41, 1)),
    (
        "= z->declare(z->builder, 1, half, in->dims[0])",
        "= half + 9",
        diagnostic("AR824", "Found.output_shapes", re.compile(r" 1\d"), "three is too many"),
    ),
    ("ANYRT_CEIL_DIV", "55", diagnostic("AR824", "55 is not a valid DimensionOperation")),
    ("return 8 * in->dims[0]", "return -8", diagnostic("AR824", "Found.workspace", -8)),
    ("return t[at].format", "return 3; return t[at].format", diagnostic("AR824", "Found.supports", 3)),
    ("return 2;", "return 0;", diagnostic("AR822", 0, "Found.num_outputs")),
    ("return 4;", "return room ? 3 : 4;", diagnostic("AR824", "Found.serialize", 3, 4)),
]


@needs_cc
@pytest.mark.parametrize(("right", "wrong", "message"), WRONG)
def test_an_invalid_result_in_c_is_reported_with_its_function(
    right, wrong, message, load, registry, log, tmp_path
):
    assert right in FOUND
    load(compiled(START + FOUND.replace(right, wrong) + END, tmp_path))
    with trt.strict(), pytest.raises(PluginError, match=message):
        built(log, two_outputs(registry), (1,), (4,), (8,))


REFUSED = [
    (END.replace("ANYRT_PLUGIN_VERSION", "7"), diagnostic("AR826", "libmine.so", 7, 2)),
    (
        END.replace("sizeof(AnyrtPlugin)", "8"),
        diagnostic("AR826", "libmine.so", 8, re.compile(r"\d+"), "sizeof(AnyrtPlugin)"),
    ),
    (END.replace(", 1}", ", 0}"), diagnostic("AR826", "libmine.so", 0, 1)),
    (
        END.replace("return &table", "return table.count ? NULL : &table"),
        diagnostic("AR826", "libmine.so", "anyrt_plugin_table;"),
    ),
    (
        END.replace("anyrt_plugin_table", "other_table"),
        diagnostic("AR826", "libmine.so", "anyrt_plugin_table,"),
    ),
]


@needs_cc
@pytest.mark.parametrize(("end", "message"), REFUSED)
def test_an_invalid_table_is_rejected(end, message, registry, tmp_path):
    path = compiled(START + FOUND.replace("= {", "__attribute__((unused)) = {") + end, tmp_path)
    with trt.strict(), pytest.raises(PluginError, match=message):
        registry.load_library(path)
    assert registry.get_creator("Found", "1") is None


@needs_cc
@pytest.mark.parametrize(
    ("right", "wrong", "values"),
    [("count,", "NULL,", ("output_count",)), ("restore, why", "NULL, why", ("serialize", "restore"))],
)
def test_a_plugin_without_a_required_function_is_rejected(right, wrong, values, registry, tmp_path):
    path = compiled(
        START.replace("#", '#pragma GCC diagnostic ignored "-Wunused-function"\n#', 1)
        + FOUND.replace(right, wrong)
        + END,
        tmp_path,
    )
    with trt.strict(), pytest.raises(PluginError, match=diagnostic("AR826", "libmine.so", "Found", *values)):
        registry.load_library(path)


@pytest.mark.parametrize("name", ["libmine.so", "libmine.so.2", "libnvinfer_plugin.so.10", "libnvinfer.so"])
def test_missing_files_and_files_of_another_kind_are_rejected(name, registry, tmp_path, golden_text):
    with trt.strict(), pytest.raises(PluginError) as caught:
        registry.load_library(str(tmp_path / name))
    golden_text(caught.value)
    (tmp_path / name).write_bytes(b"\x7fELF nonsense")
    refusal = "NVIDIA" if "nv" in name else re.compile("file too short|invalid ELF header")
    with trt.strict(), pytest.raises(PluginError, match=diagnostic("AR826", name, refusal)):
        registry.load_library(str(tmp_path / name))


TWICE = """define i32 @twice(ptr %o, ptr %in, i32 %n, ptr %out, i32 %m, ptr %from, ptr %to, ptr %w, ptr %s) {
  %x = load ptr, ptr %from
  %y = load ptr, ptr %to
  %a = load <4 x float>, ptr %x, align 4
  %b = fadd <4 x float> %a, %a
  store <4 x float> %b, ptr %y, align 4
  ret i32 0
}"""


def in_memory(enqueue):
    """A table with one plug-in whose functions are Python's, and the objects that it needs."""
    kinds = dict(table.Plugin._fields_)

    def types(self, inputs, n, outputs, m):
        outputs[0] = inputs[0]
        return 0

    def shapes(self, sizes, inputs, n, values, k, outputs, m):
        outputs[0] = inputs[0]
        return 0

    functions = {"create": lambda f, n: 1, "output_count": lambda s: 1}
    functions |= {"output_types": types, "output_shapes": shapes, "enqueue": enqueue}
    result = {name: kinds[name](function) for name, function in functions.items()}
    plugin = table.Plugin(name=b"Twice", version=b"1", space=b"", **result)
    held = table.Table(table.VERSION, ctypes.sizeof(plugin), ctypes.pointer(plugin), 1)
    return held, (plugin, result)


def test_a_table_in_memory_makes_creators_without_a_compiler(registry, log):
    image, entries = flatten(compile_text(TWICE, host()))
    code = CpuDevice().load(Compiled(Program((), 0, 0, 0, 0, (), (*entries.items(),)), image))
    held, _kept = in_memory(code.address("twice"))
    for creator in native.creators(ctypes.addressof(held), "memory"):
        registry.register_creator(creator, "")
    engine = built(log, layers(registry, 1.0, 1, "Twice", ""), (4,))
    assert engine.run(x=np.float32([1, 2, 3, 4]))["y"].tolist() == [2, 4, 6, 8]


def test_the_header_matches_the_table_in_python():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    for kind in (table.Field, table.Tensor, table.Shape, table.Sizes, table.Plugin, table.Table):
        name = "AnyrtPluginTable" if kind is table.Table else f"Anyrt{kind.__name__}"
        body = re.search(rf"typedef struct {name} {{(.*?)}} {name};", text, re.S)[1]
        matches = re.findall(
            r"\(\*(\w+)\)\(|(\w+)(?:\[\w+\])?;", re.sub(r"\(\*(\w+)\)\([^;]*\);", r"(*\1)(", body)
        )
        assert [a or b for a, b in matches] == [f[0] for f in kind._fields_]
    assert f"ANYRT_PLUGIN_VERSION {table.VERSION}\n" in text


@pytest.mark.parametrize(
    ("prefix", "enum"),
    [
        ("ANYRT_FIELD_", trt.PluginFieldType),
        ("ANYRT_", trt.DataType),
        ("ANYRT_", trt.TensorFormat),
        ("ANYRT_", DimensionOperation),
    ],
)
def test_the_numbers_of_the_header_match_the_enums(prefix, enum):
    pairs = dict(re.findall(rf"\b{prefix}(\w+) = (\d+)", HEADER.read_text()))
    reported = {name: int(number) for name, number in pairs.items() if name in enum.__members__}
    assert reported == {name: int(enum[name]) for name in reported}
    missing = {name for name in enum.__members__ if name not in reported}
    assert all(name.startswith("DLA") or int(enum[name]) > 127 for name in missing)


def test_plugins_to_serialize_is_stored_and_the_log_says_that_plans_have_none(log):
    builder = trt.Builder(log)
    for _ in range(2):
        config = builder.create_builder_config()
        config.plugins_to_serialize = ["libmine.so"]
        assert config.plugins_to_serialize == ["libmine.so"]
    assert [line for line in log.lines if "plugins_to_serialize has no effect" in line] == log.lines[:1]


def test_a_registry_has_no_parents(registry):
    assert registry.parent_search_enabled is True
    registry.parent_search_enabled = False
    assert registry.parent_search_enabled is False
    registry.parent_search_enabled = True
    assert registry.all_creators_recursive == registry.all_creators
    assert trt.Builder(trt.Logger()).get_plugin_registry() is registry


@needs_cc
def test_a_checked_build_reports_a_write_beyond_an_output_in_c(load, registry, log, tmp_path):
    wrong = FOUND.replace("*(int32_t *)to[1] = found", "((int32_t *)to[1])[found - 1] = found")
    load(compiled(START + wrong + END, tmp_path))
    engine = built(log, two_outputs(registry), (1,), (4,), (8,), checked=True)
    assert engine.run(x=np.float32([1, 0, 0]))["y"].tolist() == [0]
    with trt.strict(), pytest.raises(PluginError, match=diagnostic("AR825", 4, 1, 4, "Found.enqueue")):
        engine.run(x=np.float32([1, 1, 0]))


@needs_cc
def test_plugins_in_c_run_in_several_threads_at_once(scaled, load, registry, log):
    load(scaled)
    engine = built(log, layers(registry, 2.0, 5), (3, 4))
    inputs = [np.full((3, 4), k, np.float32) for k in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = [*pool.map(lambda x: engine.run(x=x)["y"].max(), inputs * 5)]
    assert results == [32 * k for k in range(8)] * 5
