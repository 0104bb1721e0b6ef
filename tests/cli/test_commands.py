"""Every command: its output, its files and its errors."""

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from anyrt.cli import progress
from anyrt.cli.command import all_commands
from anyrt.cli.main import main
from anyrt.cli.script import build_script
from anyrt.core.codes import CODES
from anyrt.core.errors import ShapeError
from anyrt.onnx.script import split_place
from anyrt.plan.cache import KernelCache, default_directory
from anyrt.plan.program import Compiled, Program
from tests.messages import diagnostic
from tests.plugins.samples import wrapped


def printed(capsys, *words: str, status: int = 0) -> str:
    """The output of a command: its results if it succeeds, its line of error if it fails."""
    assert main(words) == status
    out, err = capsys.readouterr()
    assert err.count("\n") == (status != 0)
    return err if status else out


def test_every_file_is_a_command():
    assert list(all_commands()) == [
        "batch",
        "cache",
        "check",
        "codes",
        "compare",
        "debug",
        "draw",
        "exec",
        "explain",
        "info",
        "inspect",
        "report",
        "run",
        "serve",
    ]


def test_module_runs_as_a_program():
    done = subprocess.run([sys.executable, "-m", "anyrt", "codes", "AR101"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"AR101: {CODES['AR101'].title}")


def test_wrong_command_is_one_line_and_status_2(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["bogus"])
    assert capsys.readouterr().err.count("\n") == 1


def test_codes_lists_the_table(capsys):
    lines = printed(capsys, "codes").splitlines()
    assert len(lines) == 1 + len(CODES)
    assert lines[1].split(maxsplit=2) == ["AR101", "ShapeError", CODES["AR101"].title]


def test_codes_rejects_an_unknown_code(capsys):
    assert re.match(
        "anyrt codes: " + diagnostic("AR304", "code", "'AR1'"), printed(capsys, "codes", "AR1", status=2)
    )


def test_info_names_versions_and_backends(capsys):
    rows = dict(line.split(maxsplit=1) for line in printed(capsys, "info").splitlines())
    assert rows["numpy"].strip() == np.__version__
    assert {"anyrt", "python", "processor", "threads", "cache", "backend"} <= set(rows)


def test_info_has_the_machine_as_an_object_that_a_file_can_hold(capsys, monkeypatch):
    machine = json.loads(printed(capsys, "info", "--json"))["machine"]
    machine["l2_bytes"] = 1 << 20
    Path("machine.json").write_text(json.dumps(machine))
    monkeypatch.setenv("ANYRT_MACHINE", "machine.json")
    assert json.loads(printed(capsys, "info", "--json"))["machine"] == machine


def test_cache_shows_and_clears_what_the_cache_keeps(capsys, own_cache):
    compiled = Compiled(Program((), 0, 0, 0, 0, (), (("run", 0),)), b"code")
    KernelCache(default_directory(), print).put("a" * 64, compiled)
    assert printed(capsys, "cache").splitlines()[1].startswith("aaaaaaaaaaaaaaaa  ")
    assert printed(capsys, "cache", "clear").startswith("removed 1 entry from ")
    assert not list(default_directory().iterdir())


def test_cache_says_how_old_entries_are(capsys, own_cache):
    compiled = Compiled(Program((), 0, 0, 0, 0, (), (("run", 0),)), b"code")
    for key, age in (("a" * 64, 3601), ("b" * 64, 7300)):
        KernelCache(default_directory(), print).put(key, compiled)
        (path,) = default_directory().glob(f"{key}*")
        os.utime(path, (time.time() - age,) * 2)
    assert [line.split("  ")[-1] for line in printed(capsys, "cache").splitlines()[1:3]] == [
        "2 hours ago",
        "1 hour ago",
    ]


def test_cache_path_is_where_the_environment_says(capsys, folder, own_cache):
    assert printed(capsys, "cache", "path") == f"{folder}/cache\n"


def test_cache_that_is_not_there_is_empty(capsys, folder, own_cache):
    assert printed(capsys, "cache", "show") == f"0 entries, 0 B of at most 1.0 GiB, in {folder}/cache\n"


def test_explain_shows_layers_and_kernels_on_a_page(capsys):
    lines = printed(capsys, "explain", "net.py").splitlines()
    assert lines[0] == "'net': 2 layers in 1 kernel"
    rows = [line.split() for line in lines]
    assert ["double", "Scale", "float32", "(1,", "2,", "2,", "2)", "x", "double+relu"] in rows
    assert ["relu", "Activation", "float32", "(1,", "2,", "2,", "2)", "double", "double+relu"] in rows
    assert ["100", "%", "64", "B", "double+relu"] in rows
    assert len(lines) < 30


def test_explain_cuts_a_large_network_to_a_page_and_says_so(capsys):
    lines = printed(capsys, "explain", "net.py:long").splitlines()
    assert lines[0].startswith("'net': 72 layers in ")
    assert "and 57 layers more; `anyrt explain net.py:long --stage graph` prints all" in lines
    assert len(lines) <= 60
    node = printed(capsys, "explain", "net.py:long", "--node", "row").splitlines()
    assert "and 8 layers more; `anyrt explain net.py:long --node row --stage graph` prints all" in node
    assert len(node) <= 80


def test_explain_shows_the_kernels_of_a_layer(capsys):
    text = printed(capsys, "explain", "net.py", "--node", "doub")
    assert ["double", "Scale"] in [line.split()[:2] for line in text.splitlines()]
    assert ["relu", "Activation"] not in [line.split()[:2] for line in text.splitlines()]
    assert 'kernel "double+relu"' in text


def test_explain_prints_every_stage(capsys):
    text = printed(capsys, "explain", "net.py", "--stage", "all")
    headings = [
        a for a, b in zip(text.splitlines(), text.splitlines()[1:], strict=False) if b == "-" * len(a)
    ]
    assert [h for h in headings if h] == ["graph", "kernels", "program", "llvm", "asm"]
    assert 'Map(fn="mul", dtype=FLOAT)(v0, v1) "double"' in text
    assert 'define void @"double+relu"(' in text
    assert "run:\n  double+relu(in_x, out_y) over 1\n" in text


def test_explain_of_a_plan_equals_that_of_its_network(capsys, plan):
    of_plan = printed(capsys, "explain", plan, "--stage", "llvm")
    assert of_plan == printed(capsys, "explain", "net.py", "--stage", "llvm")


def test_explain_shows_one_node(capsys):
    graph = printed(capsys, "explain", "net.py", "--node", "relu", "--stage", "graph").splitlines()
    assert len(graph) == 2
    assert graph[1].endswith('Map(fn="max", dtype=FLOAT)(v2, v3) "relu"')
    kernels = printed(capsys, "explain", "net.py", "--node", "double", "--stage", "kernels")
    assert kernels.count('kernel "') == 1


@pytest.mark.parametrize(("level", "instruction"), [("avx2", "vmaxps"), ("sse2", "maxps"), ("neon", "fmax")])
def test_explain_shows_assembly_of_any_processor(capsys, level, instruction):
    words = ("explain", "net.py", "--node", "relu", "--stage", "asm", "--cpu", level)
    assert instruction in printed(capsys, *words)


def test_explain_finds_all_layers_with_a_part_of_the_name(capsys):
    result = printed(capsys, "explain", "net.py:long", "--node", "ROW1", "--stage", "graph").splitlines()
    names = [line.split('"')[-2] for line in result if line.endswith('"')]
    assert names == ["row1", *(f"row{n}" for n in range(10, 20))]
    exact = printed(capsys, "explain", "net.py:long", "--node", "row1", "--stage", "graph").splitlines()
    assert [line.split('"')[-2] for line in exact if line.endswith('"')] == ["row1"]


def test_a_layer_has_no_kernels_that_only_share_what_leads_to_it(capsys):
    """Both means divide by one count, which is computed from dimensions."""
    texts = [
        printed(capsys, "explain", "net.py:means", "--node", layer, "--stage", "kernels")
        for layer in ("first", "second")
    ]
    first, second = ({line for line in text.splitlines() if line.startswith("kernel ")} for text in texts)
    assert (len(first), len(second), first & second) == (1, 1, set())


def test_a_build_that_takes_long_says_where_it_is_on_stderr(capsys, monkeypatch, own_cache):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    assert main(("explain", "net.py", "--stage", "graph")) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "anyrt: building 'net', 2 layers"
    assert lines[1].startswith("anyrt: Schedule kernels: 1 of 1, ")


def test_bars_on_a_terminal_move_and_go(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    logger, monitor = progress.talk()
    monitor.phase_start("Building engine", None, 2)
    monitor.phase_start("Compile kernels", "Building engine", 3)
    assert monitor.step_complete("Compile kernels", 0)
    monitor._progress.refresh()
    monitor.phase_finish("Compile kernels")
    monitor.phase_finish("Building engine")
    assert "Compile kernels" in shown.getvalue()
    assert "1/3" in shown.getvalue()
    assert isinstance(logger, progress.Warnings)


def test_explain_shows_the_steps_that_make_a_kernel(capsys):
    text = printed(capsys, "explain", "net.py", "--node", "relu", "--stage", "loops")
    assert [line for line in text.splitlines() if line.startswith(("buffer", "#"))] == [
        "buffer in_x FLOAT input 8 offset 0",
        "buffer out_y FLOAT output 8 offset 0",
        "# serial loops",
        "# collapse",
        "# interleave: no short loop over contiguous elements forms one row with its neighbour",
        "# store repeated: no tile repeats an expression",
        "# tile: nothing is read across memory",
        "# reorder: no short loop reads contiguous elements and stores them apart",
        "# share: no short loop repeats expensive expressions",
        "# strip-mine: its innermost loop is one piece",
        "# parallelise",
        "# vectorise",
        "# split by range: no vector loop compares positions, or its body is long",
        "# version: no vector loop follows a table of a class",
        "# precompute addresses: no long vector loop reads ascending positions",
        "# non-temporal stores: its results fit the caches",
    ]
    kernels = printed(capsys, "explain", "net.py", "--node", "relu", "--stage", "kernels")
    assert text.split("# vectorise\n")[1].split("#")[0] == kernels[kernels.index("kernel ") :]


def test_explain_shows_the_steps_alone_that_applied(capsys):
    text = printed(capsys, "explain", "net.py", "--node", "relu", "--stage", "steps")
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == ["# serial loops", "# collapse", "# parallelise", "# vectorise"]
    assert text.count("kernel ") == len(heads)


def test_explain_shows_every_version_of_a_dynamic_network(capsys):
    text = printed(capsys, "explain", "net.py:dynamic", "--stage", "kernels", "--node", "total")
    assert [line for line in text.splitlines() if line.startswith("version")] == [
        "version for eq(x.0, y.0)",
        "version for 1",
    ]
    assembly = printed(capsys, "explain", "net.py:dynamic", "--stage", "asm", "--node", "total")
    assert [line for line in assembly.splitlines() if re.match('"?total.*:', line)] == [
        "total:",
        '"total (any sizes)":',
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nope.plan",), re.escape("nope.plan: No such file or directory")),
        (("net.py:nope",), diagnostic("AR306", "net.py:nope", "def nope(network):")),
        (("net.py:wrong",), diagnostic("AR314", "net.py:29", "AttributeError")),
        (("net.py:refused",), diagnostic("AR101", "(Unnamed Layer* 0) [Scale] (net.py:34)", 2)),
        (("net.py", "--node", "foo"), diagnostic("AR304", "--node", "'foo'", "x", "double", "relu")),
        (
            ("net.py:long", "--node", "rwo7"),
            diagnostic("AR304", "--node", "'rwo7'", 73, "row7"),
        ),
        (("net.py:left_out", "--node", "gone"), diagnostic("AR304", "--node", "'gone'")),
        (("net.py", "--cpu", "foo"), diagnostic("AR809", "--cpu", "'foo'", "avx512")),
        (("x.npy",), diagnostic("AR606", "plan", "NumPy", "ONNX")),
    ],
)
def test_explain_rejects_in_one_line(capsys, words, message):
    assert re.match(f"anyrt explain: {message}", printed(capsys, "explain", *words, status=2))


def test_scripts_may_name_a_function():
    assert split_place("a/net.py:tiny") == (Path("a/net.py"), "tiny")
    assert split_place("a/net.py") == (Path("a/net.py"), "define")


def test_a_script_may_import_what_lies_beside_it(folder):
    (folder / "nets").mkdir()
    (folder / "nets" / "sizes_beside.py").write_text("SHAPE = (4, 2)")
    (folder / "nets" / "uses.py").write_text(
        "import anyrt, sizes_beside\n"
        "def define(network):\n"
        "    x = network.add_input('x', anyrt.float32, sizes_beside.SHAPE)\n"
        "    network.mark_output(network.add_identity(x).get_output(0))\n"
    )
    before = list(sys.path)
    assert b"[4, 2]" in build_script(folder / "nets" / "uses.py", "define")
    assert sys.path == before


def test_a_script_raises_the_mistakes_of_its_network():
    with pytest.raises(ShapeError, match="AR101"):
        build_script(Path("net.py"), "refused")


def test_inspect_prints_tables(capsys, plan):
    lines = [line.split() for line in printed(capsys, "inspect", plan).splitlines()]
    assert ["x", "input", "float32", "(1,", "2,", "2,", "2)"] in lines
    assert ["relu", "Activation"] in [line[:2] for line in lines]
    assert ["100", "%", "64", "B", "double+relu"] in lines


def test_inspect_prints_a_page_of_the_report_or_all_of_it(capsys, plan):
    page, whole = printed(capsys, "inspect", plan), printed(capsys, "inspect", plan, "--full")
    assert page.endswith(f"`anyrt inspect {plan} --full` prints the full build report\n")
    assert "  double+relu; reads 32 B, writes 32 B" in whole.splitlines()
    assert "its kernels were made in " in page


def test_inspect_gives_json(capsys, plan):
    output = json.loads(printed(capsys, "inspect", plan, "--json"))
    assert [b["name"] for b in output["bindings"]] == ["x", "y"]
    assert [x["kind"] for x in output["layers"]] == ["Scale", "Activation"]
    assert output["bytes"] == Path(plan).stat().st_size
    kernel = {"name": "double+relu", "layers": ["double", "relu"], "reads": 32, "writes": 32}
    assert output["report"]["kernels"] == [kernel]
    assert "Generate code" in output["build_seconds"]


def test_inspect_rejects_a_damaged_plan(capsys, plan):
    data = bytearray(Path(plan).read_bytes())
    data[200] ^= 1
    Path(plan).write_bytes(data)
    assert printed(capsys, "inspect", plan, status=2).startswith("anyrt inspect: [AR602] plan header:")


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_run_writes_outputs(capsys, plan, backend):
    text = printed(capsys, "run", plan, "--input", "x=x.npy", "--output", "y=y.npy", "--backend", backend)
    assert np.load("y.npy").ravel().tolist() == [0, 2, 0, 4, 0, 6, 0, 8]
    assert text.splitlines()[-1].split() == ["y", "float32", "(1,", "2,", "2,", "2)", "0", "2.5", "8"]


PADS = """
import numpy as np
import anyrt as trt
from tests.plugins.samples import PadCreator, pad

class Creator(PadCreator):
    pass

def define(network):
    x = network.add_input('x', trt.float32, (1, 2, 3))
    loop, turns = network.add_loop(), network.add_constant((), np.array(3, np.int32)).get_output(0)
    loop.add_trip_limit(turns, trt.TripLimit.COUNT)
    again = loop.add_recurrence(x)
    kept = network.add_slice(padded(network, again.get_output(0)), (0, 1, 1), (1, 2, 3), (1, 1, 1))
    again.set_input(1, kept.get_output(0))
    last = loop.add_loop_output(again.get_output(0), trt.LoopOutput.LAST_VALUE, 0).get_output(0)
    y = padded(network, last)
    y.name = 'y'
    network.mark_output(y)

def padded(network, x):
    y = network.add_plugin_v3([x], [], pad()).get_output(0)
    return network.add_unary(y, trt.UnaryOperation.NEG).get_output(0)
"""


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_run_calls_plugins_of_libraries_that_are_named(capsys, backend):
    Path("pads.py").write_text(PADS)
    Path("pads.plan").write_bytes(build_script(Path("pads.py"), "define"))
    x = y = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    np.save("x.npy", x)
    words = ("run", "pads.plan", "--input", "x=x.npy", "--output", "y=y.npy", "--backend", backend)
    assert "AR823" in printed(capsys, *words, status=2)
    printed(capsys, *words, "--plugins", "pads.py")
    for _ in range(3):
        y = -wrapped(y)[:, 1:3, 1:4]
    assert np.array_equal(np.load("y.npy"), -wrapped(y))
    printed(capsys, "run", "pads.plan", "--input", "x=x.npy", "--backend", "null")


def test_run_on_null_counts(capsys, plan):
    text = printed(capsys, "run", plan, "--input", "x=x.npy", "--backend", "null")
    assert text.startswith("kernels: 1, bytes moved: ")


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_run_reads_and_writes_arrays_as_the_network_sees_them(capsys, backend):
    Path("image.py").write_text(
        "import anyrt as trt\n\n\ndef define(network):\n"
        "    x = network.add_input('x', trt.float16, (1, 3, 1, 2))\n"
        "    y = network.add_unary(x, trt.UnaryOperation.ABS).get_output(0)\n"
        "    x.allowed_formats = 1 << int(trt.TensorFormat.CHW4)\n"
        "    y.allowed_formats = 1 << int(trt.TensorFormat.HWC8)\n"
        "    network.mark_output(y)\n"
    )
    Path("image.plan").write_bytes(build_script(Path("image.py"), "define"))
    np.save("x.npy", np.arange(6, dtype=np.float16).reshape(1, 3, 1, 2))
    text = printed(capsys, "run", "image.plan", "--input", "x=x.npy", "--backend", backend)
    assert text.splitlines()[-1].split()[-7:] == ["(1,", "3,", "1,", "2)", "0", "2.5", "5"]


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_run_shows_outputs_in_the_sizes_that_data_decide(capsys, backend):
    Path("chosen.py").write_text(
        "import anyrt as trt\n\n\ndef define(network):\n"
        "    x = network.add_input('x', trt.bool, (6,))\n"
        "    network.mark_output(network.add_non_zero(x).get_output(0))\n"
    )
    Path("chosen.plan").write_bytes(build_script(Path("chosen.py"), "define"))
    np.save("x.npy", np.array([1, 0, 1, 0, 0, 1], bool))
    text = printed(capsys, "run", "chosen.plan", "--input", "x=x.npy", "--backend", backend)
    assert text.splitlines()[-1].split()[-5:] == ["(1,", "3)", "0", "2.33333", "5"]


def test_run_reads_types_that_numpy_does_not_know(capsys):
    Path("half.py").write_text(
        "import anyrt as trt\n\n\ndef define(network):\n"
        "    x = network.add_input('x', trt.bfloat16, (3,))\n"
        "    network.mark_output(network.add_cast(x, trt.float32).get_output(0))\n"
    )
    Path("half.plan").write_bytes(build_script(Path("half.py"), "define"))
    np.save("half.npy", np.array([1, 2, 6], ml_dtypes.bfloat16))
    text = printed(capsys, "run", "half.plan", "--input", "x=half.npy")
    assert text.splitlines()[1].split()[-3:] == ["1", "3", "6"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), diagnostic("AR701", "x")),
        (("--input", "x"), diagnostic("AR304", "--input", "'x'", "NAME=FILE")),
        (("--input", "z=x.npy"), diagnostic("AR706", "--input", "'z'", "x")),
        (("--input", "x=net.py"), diagnostic("AR705", "x", "net.py", ".npy")),
        (("--input", "x=x.npy", "--output", "z=z.npy"), diagnostic("AR706", "--output", "'z'", "y")),
        (("--input", "x=x.npy", "--backend", "foo"), diagnostic("AR304", "--backend", "'foo'", "cpu")),
    ],
)
def test_run_rejects_in_one_line(capsys, plan, words, message):
    assert re.match(f"anyrt run: {message}", printed(capsys, "run", plan, *words, status=2))


def test_run_waits_for_no_fifo(capsys, plan):
    os.mkfifo("x.fifo")
    output = printed(capsys, "run", plan, "--input", "x=x.fifo", status=2)
    assert re.match("anyrt run: " + diagnostic("AR705", "x", "x.fifo", ".npy"), output)


def test_run_rejects_an_array_of_the_wrong_shape(capsys, plan):
    np.save("x.npy", np.zeros((1, 2, 2, 3), np.float32))
    assert "[AR" in printed(capsys, "run", plan, "--input", "x=x.npy", status=2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            'network.add_input("x", np.float32, (2,))',
            diagnostic("AR311", "add_input: dtype (bad.py:3)", "float32", "DataType"),
        ),
        ("network.nam = 3", diagnostic("AR313", "INetworkDefinition (bad.py:3)", "'nam'")),
        ("missing", diagnostic("AR314", "bad.py:3", "NameError: name 'missing' is not defined")),
    ],
)
def test_explain_reports_an_error_of_a_file_once(capsys, tmp_path, monkeypatch, line, message):
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(f"import numpy as np\ndef define(network):\n    {line}\n")
    output = printed(capsys, "explain", "bad.py", status=2)
    assert re.match(f"anyrt explain: {message}", output)
    assert output.count("[AR") == output.rstrip("\n").count(";") == 1


def test_explain_reports_the_line_with_a_syntax_error(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text("x = 1\ndef define(network)\n")
    output = printed(capsys, "explain", "bad.py", status=2)
    assert re.search(diagnostic("AR314", "bad.py:2", "SyntaxError"), output)
