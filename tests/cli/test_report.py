"""The HTML report: the content of its page, that it loads no other file, and its response to clicks in a
browser."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import anyrt
from anyrt.cli.main import main
from tests.messages import diagnostic

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SECTIONS = ["Drawing", "Kernels by time", "Layers by time", "Latency", "Error of each layer"]
CLICKS = """<script>
const say = [], click = e => e.dispatchEvent(new MouseEvent('click', {bubbles: true}));
click(document.querySelector('tr.row[data-kind=kernel]'));
say.push(document.querySelector('#detail h2').textContent, document.querySelector('#detail').hidden);
say.push([...document.querySelectorAll('#detail summary')].map(e => e.textContent).join('|'));
click(document.querySelector('#close')); say.push(document.querySelector('#detail').hidden);
click(document.querySelector('#drawing g.layer')); say.push(document.querySelector('#detail h2').textContent);
click([...document.querySelectorAll('#detail button')].find(b => b.textContent.startsWith('kernel')));
say.push(document.querySelector('#detail h2').textContent);
const input = document.querySelector('#search'); input.value = 'no such layer';
input.dispatchEvent(new Event('input'));
say.push([...document.querySelectorAll('tr.row')].filter(r => !r.hidden).length);
const before = document.querySelector('#drawing svg').style.transform;
document.querySelector('#drawing').dispatchEvent(new WheelEvent('wheel', {deltaY: -200}));
say.push(document.querySelector('#drawing svg').style.transform !== before);
document.title = JSON.stringify(say);
</script></body>"""


@pytest.fixture
def model(folder) -> str:
    """y = max(x · w, 0)."""
    x, y = (helper.make_tensor_value_info(n, 1, [4, 8]) for n in "xy")
    w = numpy_helper.from_array(np.eye(8, dtype=np.float32) * 2, "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="mm"),
        helper.make_node("Softmax", ["h"], ["y"], name="sm"),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "m.onnx")
    return "m.onnx"


def facts(text: str) -> dict:
    return json.loads(re.search(r'<script id="facts"[^>]*>(.*?)</script>', text, re.S)[1])


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.sources = [], []

    def handle_starttag(self, tag, attrs):
        self.sources += [v for k, v in attrs if k in ("src", "href") and not str(v).startswith("#")]
        if tag not in ("meta", "input", "path", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("meta", "input", "path", "rect"):
            assert self.open.pop() == tag


@pytest.mark.parametrize("network", ["m.onnx", "net.py:long", "net.plan"])
def test_a_report_holds_all_sections_and_loads_nothing(network, model, plan, capsys):
    assert main(["report", network, "-o", "report.html"]) == 0
    text = Path("report.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert (tags.open, tags.sources) == ([], [])
    assert not re.search(r"url\(['\"]?http|@import", text)
    assert [s for s in SECTIONS if f"<h2>{s}</h2>" not in text] == []


def test_times_bytes_and_errors_are_of_the_network(model):
    main(["report", model, "-o", "report.html"])
    information = facts(Path("report.html").read_text())
    kernels = {k["name"]: k for k in information["kernels"]}
    product = next(k for k in kernels.values() if "mm" in k["layers"])
    assert product["operations"] >= 2 * 4 * 8 * 8
    assert product["reads"] >= 4 * (4 * 8 + 8 * 8)
    assert product["ms"] > 0
    assert product["limit"] > 0
    assert {"steps", "loops", "assembly"} <= product.keys()
    assert [e["name"] for e in information["errors"]] == ["h", "y"]
    assert all(e["agrees"] for e in information["errors"])
    weights = next(c for c in information["constants"] if c["count"] == 64)
    assert (weights["minimum"], weights["maximum"], weights["zeros"]) == (0.0, 2.0, 56 / 64)
    assert sum(layer["ms"] for layer in information["layers"]) == pytest.approx(
        sum(k["ms"] for k in information["kernels"])
    )


@pytest.mark.parametrize("network", ["m.onnx", "net.py:long"])
def test_each_kernel_has_the_assembly_that_explain_prints(network, model, capsys):
    main(["report", network, "-o", "report.html"])
    capsys.readouterr()
    main(["explain", network, "--stage", "asm"])
    text = capsys.readouterr().out
    kernels = {k["name"]: k["assembly"] for k in facts(Path("report.html").read_text())["kernels"]}
    assert [name for name, code in kernels.items() if ".size\t" not in code or code not in text] == []


def test_long_assembly_is_cut_and_kernels_beyond_the_budget_say_so(model, monkeypatch):
    monkeypatch.setattr("anyrt.cli.report.facts.TEXT", 100)
    monkeypatch.setattr("anyrt.cli.report.facts.BUDGET", 100)
    main(["report", model, "-o", "report.html"])
    first, *rest = (k["assembly"] for k in facts(Path("report.html").read_text())["kernels"])
    assert re.search(r"… \d+ characters more; `anyrt explain` prints all with --stage$", first)
    assert rest
    assert all(text.startswith("omitted: the texts of other kernels exceed ") for text in rest)


def test_memory_over_time_is_what_is_alive(folder):
    main(["report", "net.py:long", "-o", "report.html"])
    information = facts(Path("report.html").read_text())["memory"]
    assert max(step["bytes"] for step in information) >= 16 * 16 * 4
    assert len(information) >= 24


def test_a_model_with_problems_gets_a_page_that_lists_them(model, capsys):
    proto = onnx.load(model)
    proto.graph.node[0].op_type = "Nonsense"
    onnx.save(proto, model)
    with pytest.raises(SystemExit, match="1"):
        main(["report", model, "-o", "report.html"])
    text = Path("report.html").read_text()
    assert "Nonsense" in text
    assert "<p>not built: no drawing, kernels, " in text
    assert re.findall("<h2>(.*?)</h2>", text) == ["Problems"]


def test_an_engine_writes_its_report(model):
    text = anyrt.load(model).engine.report("engine.html")
    assert Path("engine.html").read_text() == text
    assert facts(text)["kernels"]


@pytest.mark.parametrize("path", [5, b"engine.html", anyrt.BuilderFlag.TF32])
def test_a_report_for_no_path_raised_what_python_raises(model, path):
    with pytest.raises(
        TypeError, match=diagnostic("AR311", "report: path", type(path).__name__, "str", "None")
    ):
        anyrt.load(model).engine.report(path)


def test_a_report_for_a_path_with_a_nul_raised_what_python_raises(model):
    with pytest.raises(anyrt.errors.ResourceError, match=diagnostic("AR803", "a\0b", "NUL")):
        anyrt.load(model).engine.report("a\0b")


def test_clicks_search_and_zoom_work_in_a_browser(model, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium, to click through the page")
    main(["report", model, "-o", "report.html"])
    page = Path("report.html").read_text()
    Path("clicked.html").write_text(page.replace("</body>", CLICKS))
    words = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/profile",
        "--dump-dom",
    ]
    address = Path("clicked.html").resolve().as_uri()
    done = subprocess.run([CHROMIUM, *words, address], capture_output=True, text=True, timeout=60, check=True)
    said = json.loads(re.search(r"<title>(\[.*?\])</title>", done.stdout)[1])
    first = max(facts(page)["kernels"], key=lambda k: k["ms"])["name"]
    assert said[0] == f"kernel {first}"
    assert said.pop(1) is False
    assert said[1] == "steps of its strategy|loops|assembly"
    assert said[2] is True
    assert said[3].startswith("layer ")
    assert said[4].startswith("kernel ")
    assert said[5:] == [0, True]


@pytest.mark.rare
def test_two_thousand_layers_stay_small(folder):
    Path("large.py").write_text(
        "import anyrt as trt\n\n\ndef define(network):\n"
        "    x = network.add_input('x', trt.float32, (8, 8))\n"
        "    for n in range(1000):\n"
        "        total = network.add_reduce(x, trt.ReduceOperation.SUM, 1 + n % 2, True).get_output(0)\n"
        "        x = network.add_elementwise(x, total, trt.ElementWiseOperation.MAX).get_output(0)\n"
        "    network.mark_output(x)\n"
    )
    assert main(["report", "large.py", "-o", "report.html"]) == 0
    assert Path("report.html").stat().st_size < 10 << 20
    text = Path("report.html").read_text()
    assert len(facts(text)["layers"]) == 2000
    assert re.search(r"<title>[^<]* × \d\d+</title>", text), "blocks that repeat are drawn once"
