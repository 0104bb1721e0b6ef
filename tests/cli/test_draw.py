"""Drawings: their content, their validity as XML, and the errors of the command."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from anyrt.cli.commands.draw import drawn as drawn_network
from anyrt.cli.draw.fold import folded
from anyrt.cli.draw.picture import Box, Kind, Picture, Tensor, Wire, picture_of
from anyrt.cli.draw.place import Rect, place, short
from anyrt.cli.draw.svg import svg
from anyrt.cli.main import main
from anyrt.cli.script import build_script
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.plan.plan import Plan
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.messages import diagnostic

SVG = "{http://www.w3.org/2000/svg}"
BLOCK = """
import numpy as np
import anyrt as trt


def norm(network, x, name):
    ones = [network.add_constant((1, 4, 1, 1), np.arange(1, 5, dtype=np.float32)) for _ in range(2)]
    layer = network.add_normalization(x, ones[0].get_output(0), ones[1].get_output(0), 12)
    layer.name = name
    return layer.get_output(0)


def residual(network):
    x = network.add_input("x", trt.float32, (1, 4, 8, 8))
    gelu = network.add_activation(norm(network, x, "norm1"), trt.ActivationType.GELU_ERF)
    gelu.name = "gelu"
    add = network.add_elementwise(norm(network, gelu.get_output(0), "norm2"), x, trt.ElementWiseOperation.SUM)
    add.name = "add"
    add.get_output(0).name = "y"
    network.mark_output(add.get_output(0))


def branches(network):
    x = network.add_input("x", trt.float32, (1, 4, 8, 8))
    relu = network.add_activation(x, trt.ActivationType.RELU)
    relu.name = "relu"
    pieces = [relu.get_output(0), norm(network, x, "norm"), x]
    concat = network.add_concatenation(pieces)
    concat.axis, concat.name = 1, "concat"
    pool = network.add_reduce(concat.get_output(0), trt.ReduceOperation.MAX, 4, True)
    pool.name = "pool"
    for tensor in (concat.get_output(0), pool.get_output(0)):
        network.mark_output(tensor)


def odd(network):
    x = network.add_input('<x> & "y"', trt.float32, (2,))
    relu = network.add_activation(x, trt.ActivationType.RELU)
    relu.name = "a</text>\\x07" + "é層" * 40
    nothing = network.add_identity(relu.get_output(0))
    nothing.name = "nothing"
    network.mark_output(nothing.get_output(0))
"""


@pytest.fixture(autouse=True)
def networks(folder):
    Path("block.py").write_text(BLOCK)


def drawn(*words: str, name: str = "net.svg") -> str:
    assert main(["draw", *words, "-o", name]) == 0
    return Path(name).read_text()


def groups(text: str, kind: str) -> list[ET.Element]:
    return [g for g in ET.fromstring(text).iter(f"{SVG}g") if g.get("class") == kind]


def texts(element: ET.Element) -> list[str]:
    return ["".join(t.itertext()) for t in element.iter(f"{SVG}text")]


def test_a_chain_is_one_frame_with_a_box_for_each_layer(capsys, plan):
    text = drawn(plan)
    assert capsys.readouterr().out == "net.svg: 2 layers in 1 kernel\n"
    assert len(groups(text, "kernel")) == 1
    assert [texts(g) for g in groups(text, "layer")] == [["double", "Scale"], ["relu", "Activation"]]
    assert [texts(g) for g in (*groups(text, "input"), *groups(text, "output"))] == [["x"], ["y"]]


def test_tensors_in_memory_have_shape_and_bytes_others_a_shape(plan):
    labels = texts(ET.fromstring(drawn(plan)))
    assert labels.count("1×2×2×2 float32 · 32 B") == 2
    assert labels.count("1×2×2×2") == 1


def test_a_residual_block_has_a_frame_for_each_kernel():
    text = drawn("block.py:residual")
    assert [texts(g)[0] for g in groups(text, "layer")] == ["norm1", "gelu", "norm2", "add"]
    assert len(groups(text, "kernel")) == 2
    titles = [g.find(f"{SVG}title").text.split(":")[0] for g in groups(text, "wire")]
    assert Counter(titles) == {"x": 4, "norm1": 1, "gelu": 3, "norm2": 1, "add": 2}


def test_boxes_say_how_many_bytes_of_constants_a_layer_reads():
    (norm, *_) = groups(drawn("block.py:residual"), "layer")
    assert texts(norm) == ["norm1", "Normalization · 32 B of constants"]


def test_pieces_of_a_concatenation_lead_to_its_place_in_memory():
    text = drawn("block.py:branches")
    assert [texts(g) for g in groups(text, "place")] == [["concat", "Concatenation"]]
    assert [texts(g) for g in groups(text, "part")] == [["concat", "Concatenation · copy"]]
    assert len(groups(text, "kernel")) == 4


def test_shapes_of_a_dynamic_network_are_those_of_the_optimum():
    text = drawn("net.py:dynamic")
    assert "64×8 float32 · 2.0 KiB" in texts(ET.fromstring(text))
    assert "sizes at the optimum of the first profile" in text
    assert "x: float32 (y.0, 8), 2048 bytes" in text


def test_profiling_shows_the_time_of_each_kernel():
    text = drawn("block.py:residual", "--profile")
    times = [re.fullmatch(r"(\S+) ms · (\d+) %", texts(g)[0]) for g in groups(text, "kernel")]
    assert 99 <= sum(int(t[2]) for t in times) <= 101


def test_profiling_runs_dynamic_networks_at_their_optimum():
    assert " ms · 100 %" in drawn("net.py:dynamic", "--profile")


def test_profiling_runs_networks_with_packed_and_size_inputs():
    Path("sizes.py").write_text(
        "import anyrt as trt\n\n\ndef define(network, config):\n"
        "    size = network.add_input('size', trt.int32, (2,))\n"
        "    x = network.add_input('x', trt.int4, (3, 5))\n"
        "    shuffle = network.add_shuffle(x)\n"
        "    shuffle.set_input(1, size)\n"
        "    network.mark_output(shuffle.get_output(0))\n"
        "    profile = network.builder.create_optimization_profile()\n"
        "    profile.set_shape_input('size', (1, 1), (5, 3), (15, 15))\n"
        "    config.add_optimization_profile(profile)\n"
    )
    assert "5×3 int4 · 8 B" in drawn("sizes.py", "--profile")


def test_dashes_are_explained_where_there_are_any(plan):
    assert "dashed: " in drawn("block.py:branches")
    assert "dashed: " not in drawn(plan)


def test_names_are_escaped_and_cut_and_shown_in_full_as_titles():
    text = drawn("block.py:odd")
    (layer,) = groups(text, "layer")
    name = "a</text>�" + "é層" * 40
    assert layer.find(f"{SVG}title").text.split("\n")[0] == name
    assert texts(layer)[0] == short(name)
    assert [texts(g) for g in groups(text, "input")] == [['<x> & "y"']]


def test_layers_that_are_left_out_are_named():
    assert "no kernel computes nothing" in texts(ET.fromstring(drawn("block.py:odd")))


def test_a_page_holds_all_it_needs():
    text = drawn("block.py:residual", name="net.html")
    assert text.startswith("<!doctype html>")
    assert "<script" not in text
    assert not re.search(r"(src|href)=|@import|url\((?!#)", text)
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]


def test_a_picture_has_colours_for_light_and_dark():
    text = drawn("block.py:residual")
    assert text.count("prefers-color-scheme: dark") == 1


def test_the_same_network_gives_the_same_picture(folder):
    (folder / "block.plan").write_bytes(build_script(folder / "block.py", "residual"))
    assert drawn("block.plan") == drawn("block.py:residual") == drawn("block.plan")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("x.npy", "-o", "net.svg"), diagnostic("AR606", "plan", "NumPy")),
        (("nope.plan", "-o", "net.svg"), re.escape("nope.plan: No such file or directory")),
        (("net.plan", "-o", "net.png"), diagnostic("AR304", "--output", "'net.png'", ".svg")),
        (
            ("net.plan", "-o", "nowhere/net.svg"),
            diagnostic("AR803", "nowhere/net.svg", "No such file or directory"),
        ),
        (("net.py:wrong", "-o", "net.svg"), diagnostic("AR314", "net.py:29", "AttributeError")),
    ],
)
def test_draw_rejects_in_one_line(capsys, plan, words, message):
    assert main(["draw", *words]) == 2
    assert re.match(f"anyrt draw: {message}", capsys.readouterr().err)
    assert not Path("net.svg").exists()


def test_a_damaged_plan_leaves_the_old_picture_alone(capsys, plan):
    before = drawn(plan)
    data = bytearray(Path(plan).read_bytes())
    data[200] ^= 1
    Path(plan).write_bytes(data)
    assert main(["draw", plan, "-o", "net.svg"]) == 2
    assert "[AR602] plan header" in capsys.readouterr().err
    assert Path("net.svg").read_text() == before
    assert sorted(p.name for p in Path.cwd().glob(".net*")) == []


def test_layers_that_share_a_step_do_not_need_each_other():
    """`b` and the path to `a` begin with the same step, which is in the box of `b`, from which `a` reads."""
    x = b.param("x", (8,), DataType.FLOAT)
    step = b.map_("abs", x)
    first = b.map_("neg", step)
    second = b.map_("add", b.map_("sqrt", step), first)
    graph = Graph((("x", x),), (("y", second),), {x: "x", first: "b", second: "a"})
    lowered = native.lower(graph, {}, Sizes())
    picture = picture_of(Plan("net", ""), graph, lowered.schedule, {})
    placed = place(picture)
    heights = {box.title: rect.y for box, rect in zip(picture.boxes, placed.boxes, strict=True)}
    assert heights["x"] < heights["b"] < heights["a"] < heights["y"]


def chain(count: int, per_kernel: int) -> Picture:
    """A chain with a shortcut past each five layers."""
    layers = [Box(Kind.LAYER, f"layer{n}", "Scale", n // per_kernel) for n in range(count)]
    boxes = (Box(Kind.INPUT, "x", "", None), *layers, Box(Kind.OUTPUT, "y", "", None))
    tensors = tuple(Tensor(n, (1, 64), "float32", 256, "(1, 64)") for n in range(count + 1))
    wires = [Wire(n, n + 1) for n in range(count + 1)]
    wires += [Wire(n, n + 5) for n in range(0, count - 5, 5)]
    return Picture(
        "net", tuple(f"k{n}" for n in range(-(-count // per_kernel))), boxes, tensors, tuple(wires)
    )


def apart(a: Rect, b: Rect) -> bool:
    return a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y


@pytest.mark.parametrize("per_kernel", [1, 3, 7, 40])
def test_no_two_boxes_overlap_and_frames_hold_their_boxes(per_kernel):
    picture = chain(40, per_kernel)
    placed = place(picture)
    assert all(apart(a, b) for a, b in combinations(placed.boxes, 2))
    assert all(apart(a, b) for a, b in combinations(placed.frames, 2))
    for box, rect in zip(picture.boxes, placed.boxes, strict=True):
        for number, frame in enumerate(placed.frames):
            inside = frame.x < rect.x < rect.x + rect.width < frame.x + frame.width
            inside &= frame.y < rect.y < rect.y + rect.height < frame.y + frame.height
            assert inside if number == box.frame else apart(rect, frame)


@pytest.mark.parametrize("per_kernel", [1, 3, 7, 40])
def test_no_wire_crosses_a_box(per_kernel):
    placed = place(chain(40, per_kernel))
    for line in placed.lines:
        for run in line.runs:
            for box in placed.boxes:
                beside = run.x <= box.x or run.x >= box.x + box.width
                assert beside or run.bottom <= box.y or run.top >= box.y + box.height


@pytest.mark.parametrize("per_kernel", [1, 3, 10**6])
def test_twice_the_layers_are_twice_the_picture(per_kernel):
    sizes = [len(svg(chain(n, per_kernel))) for n in (250, 500)]
    assert 1.8 * sizes[0] < sizes[1] < 2.2 * sizes[0]


def test_shares_of_time_are_shown_if_no_kernel_took_any():
    assert ">0 ms<" in svg(chain(1, 1), milliseconds=[0.0])
    assert np.isfinite(place(chain(1, 1)).height)


PADDED = """
import numpy as np
import anyrt as trt


def define(network):
    x = network.add_input("image", trt.float32, (1, 16, 32, 32))
    for name in ("first", "second"):
        weights, bias = np.ones((16, 16, 3, 3), np.float32), np.zeros(16, np.float32)
        layer = network.add_convolution_nd(x, 16, (3, 3), weights, bias)
        layer.padding_nd, layer.name = (1, 1), name
        x = layer.get_output(0)
    network.mark_output(x)


def loop(network):
    x = network.add_input("x", trt.float32, (4, 8))
    loop, turns = network.add_loop(), network.add_constant((), np.array(3, np.int32)).get_output(0)
    loop.add_trip_limit(turns, trt.TripLimit.COUNT)
    state = loop.add_recurrence(x)
    tanh = network.add_activation(state.get_output(0), trt.ActivationType.TANH)
    tanh.name = "tanh"
    total = network.add_reduce(tanh.get_output(0), trt.ReduceOperation.SUM, 2, True)
    total.name = "total"
    step = network.add_elementwise(tanh.get_output(0), total.get_output(0), trt.ElementWiseOperation.SUM)
    step.name = "step"
    state.set_input(1, step.get_output(0))
    last = loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE, 0)
    y = network.add_unary(last.get_output(0), trt.UnaryOperation.NEG)
    y.name = "neg"
    network.mark_output(y.get_output(0))
"""


def picture(place):
    Path("drawn.py").write_text(PADDED)
    return drawn_network(place, False)[0]


def from_to(picture):
    return {
        (picture.boxes[picture.tensors[w.tensor].source].title, picture.boxes[w.target].title)
        for w in picture.wires
    }


def test_every_writer_of_a_tensor_has_a_wire_to_its_reader():
    shown = picture("drawn.py")
    inputs = [n for n, box in enumerate(shown.boxes) if box.kind is Kind.INPUT]
    reached, before = set(inputs), set()
    while reached != before:
        before = set(reached)
        reached |= {w.target for w in shown.wires if shown.tensors[w.tensor].source in reached}
    ends = {shown.tensors[w.tensor].source for w in shown.wires}
    outputs = {n for n, box in enumerate(shown.boxes) if box.kind is Kind.OUTPUT}
    assert outputs <= reached
    assert ends == set(range(len(shown.boxes))) - outputs
    assert ("first", "second") in from_to(shown)


def test_bodies_of_loops_are_drawn_in_a_region():
    shown = picture("drawn.py:loop")
    ((name, frames),) = shown.regions
    assert {"tanh", "total", "step"} <= {b.title for b in shown.boxes if b.frame in frames}
    assert "neg" not in {b.title for b in shown.boxes if b.frame in frames}
    assert {("tanh", "total"), ("step", name), (name, "neg")} <= from_to(shown)
    assert f"<title>{name}</title>" in svg(shown)


@pytest.mark.parametrize("place", ["drawn.py", "drawn.py:loop"])
def test_counts_of_a_picture_are_those_of_the_build(place, capsys):
    Path("drawn.py").write_text(PADDED)
    assert main(["draw", place, "-o", "net.svg"]) == 0
    assert main(["explain", place]) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.partition(": ")[2] == second.partition(": ")[2]


def test_the_legend_says_which_layers_the_build_log_does_not_count():
    legend = "8 layers in 2 kernels, 4 constants included, which the build log does not count"
    assert legend in texts(ET.fromstring(drawn("block.py:residual")))


def test_blocks_that_repeat_are_drawn_once_and_connected():
    Path("blocks.py").write_text(
        "import anyrt as trt\n\n\ndef define(network):\n"
        "    x = network.add_input('x', trt.float32, (8, 8))\n"
        "    for n in range(60):\n"
        "        total = network.add_reduce(x, trt.ReduceOperation.SUM, 1 + n % 2, True).get_output(0)\n"
        "        x = network.add_elementwise(x, total, trt.ElementWiseOperation.MAX).get_output(0)\n"
        "    network.mark_output(x)\n"
    )
    whole = drawn_network("blocks.py", False)[0]
    once = folded(whole)
    assert len(once.frames) < len(whole.frames) / 2
    assert any("× " in name for name in once.frames)
    drawn = [(once.tensors[w.tensor].source, once.tensors[w.tensor].shape, w.target) for w in once.wires]
    assert len(set(drawn)) == len(drawn) < len(whole.wires) / 2
    inputs, outputs = (
        {n for n, b in enumerate(once.boxes) if b.kind is k} for k in (Kind.INPUT, Kind.OUTPUT)
    )
    reached, before = set(inputs), set()
    while reached != before:
        before = set(reached)
        reached |= {w.target for w in once.wires if once.tensors[w.tensor].source in reached}
    assert outputs <= reached
    assert ET.fromstring(svg(once)).tag == f"{SVG}svg"
