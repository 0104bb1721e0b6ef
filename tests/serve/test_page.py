"""The page at / shows and tries models, loads no external files, and reads what its token permits."""

import asyncio
import base64
import hashlib
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from importlib.resources import files

import pytest
from onnx import parser

pytest.importorskip("granian", reason="the extra serve is not installed: make programs runs this")

pytestmark = pytest.mark.programs
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = "<b id=evil>x</b>"
UNTIL = """const until = async test => {
    for (let k = 0; k < 600; k++) { if (test()) return; await new Promise(r => setTimeout(r, 50)); }
    throw new Error('never: ' + test + document.body.innerText);
};"""


def get(server, path="/", **headers):
    """(status, headers, text)"""
    try:
        answer = urllib.request.urlopen(urllib.request.Request(server.url(path), headers=headers))
    except urllib.error.HTTPError as error:
        answer = error
    return answer.status, answer.headers, answer.read().decode()


@pytest.fixture
def evil(tmp_path):
    """A model whose input has the name of an HTML element."""
    proto = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }'
    )
    proto.graph.input[0].name = proto.graph.node[0].input[0] = EVIL
    (tmp_path / "neg.onnx").write_bytes(proto.SerializeToString())
    return tmp_path / "neg.onnx"


class Browser:
    """A page of headless Chromium, driven by the DevTools protocol, which no content policy restricts."""

    def __init__(self, folder):
        self.folder = folder
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "about:blank"]
        self.process = subprocess.Popen(
            [CHROMIUM, *words, f"--user-data-dir={folder}"],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def run(self, address, *scripts):
        """The values of scripts, and the lines that the browser logged."""
        return asyncio.run(self._run(address, scripts))

    async def _run(self, address, scripts):
        aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed: make programs runs this")
        place, end = self.folder / "DevToolsActivePort", time.monotonic() + 60
        while not place.exists() or not place.read_text().strip():
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        port = place.read_text().split()[0]
        async with aiohttp.ClientSession() as session:
            async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
                target = (await answer.json())["webSocketDebuggerUrl"]
            async with session.ws_connect(target) as socket:
                self.logged = []
                await self._do(socket, "Log.enable")
                await self._do(socket, "Page.enable")
                await self._do(socket, "Page.navigate", url=address)
                await self._until(socket, lambda m: m.get("method") == "Page.loadEventFired")
                return [await self._value(socket, s) for s in scripts]

    async def _value(self, socket, script):
        text = f"(async () => {{ {UNTIL} {script} }})()"
        reply = await self._do(
            socket, "Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in reply["result"], reply
        return reply["result"]["result"].get("value")

    async def _do(self, socket, method, **params):
        await socket.send_json({"id": 1, "method": method, "params": params})
        return await self._until(socket, lambda m: m.get("id") == 1)

    async def _until(self, socket, test):
        while True:
            message = json.loads((await socket.receive(timeout=60)).data)
            if message.get("method") == "Log.entryAdded":
                self.logged.append(message["params"]["entry"]["text"])
            if test(message):
                return message


@pytest.fixture
def browser(tmp_path):
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium, to use the page")
    instance = Browser(tmp_path / "profile")
    yield instance
    instance.process.kill()
    instance.process.wait()


LOOK = """await until(() => !document.getElementById('main').hidden);
return [...document.querySelectorAll('#models td')].map(e => e.textContent);"""
TRY = """document.querySelector('#inputs textarea').value = '[1, -2, 3]';
document.querySelector('#infer button').click();
await until(() => document.getElementById('answer').textContent);
await until(() => document.querySelectorAll('#models td')[5].textContent === '1');
return document.getElementById('answer').textContent.split('\\n').slice(1);"""
BARS = """const titles = [...document.querySelectorAll('rect title')].map(e => e.textContent);
return titles.filter(t => !t.endsWith(': 0'));"""
INJECT = """const [script, image] = ['script', 'img'].map(tag => document.createElement(tag));
script.textContent = 'window.evil = 1'; image.src = '/v2'; image.setAttribute('onerror', 'window.evil = 1');
document.body.append(script, image); await new Promise(r => setTimeout(r, 300));
return [window.evil ?? null, document.getElementById('evil')];"""


def test_models_are_shown_and_tried_in_a_browser(browser, serving, evil):
    server = serving(evil)
    cells, answer, bars, injected = browser.run(server.url("/"), LOOK, TRY, BARS, INJECT)
    assert cells[:9] == ["neg", "1", "READY", f"{EVIL}: FP32 [-1, 3]", "y: FP32 [-1, 3]", "0", "0", "0", "0"]
    assert answer == ["y: FP32 [1, 3]", "-1, 2, -3"]
    assert len(bars) == 1
    assert re.fullmatch(r"up to .* (ms|s): 1", bars[0])
    assert injected == [None, None]
    assert any("Content Security Policy" in text for text in browser.logged)


def test_a_wrong_input_shows_the_error_of_the_server(browser, serving, evil):
    wrong = TRY.replace("[1, -2, 3]", "[1]").replace("[5].textContent === '1'", "[0]")
    _, answer = browser.run(serving(evil).url("/"), LOOK, wrong.replace(".split('\\n').slice(1)", ""))
    assert answer.startswith("400: input ")


def test_a_token_is_required_and_kept_only_in_the_page(browser, serving, evil):
    server = serving(evil, env={"ANYRT_SERVE_TOKEN": "secret"})
    enter = """await until(() => !document.getElementById('access').hidden);
    const said = document.getElementById('problem').textContent, token = document.getElementById('token');
    token.value = 'secret'; document.querySelector('#access button').click(); return said;"""
    stored = (
        "return [localStorage.length, sessionStorage.length, document.cookie, location.href, token.length];"
    )
    said, cells, answer, kept = browser.run(server.url("/"), enter, LOOK, TRY, stored)
    assert said == "The server asks for a token."
    assert cells[:3] == ["neg", "1", "READY"]
    assert answer[1] == "-1, 2, -3"
    assert kept == [0, 0, "", server.url("/"), 6]


def test_policy_permits_the_one_script_and_style(serving, neg):
    status, headers, text = get(serving(neg))
    assert status == 200
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    for tag in ("script", "style"):
        (part,) = re.findall(f"<{tag}[^>]*>(.*?)</{tag}>", text, re.DOTALL)
        assert len(part) > 500
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert policy.pop(f"{tag}-src") == f"'sha256-{digest}'"
    assert policy.pop("connect-src") == "'self'"
    rest = ("default-src", "base-uri", "form-action", "frame-ancestors")
    assert policy == dict.fromkeys(rest, "'none'")
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


def test_page_writes_text_alone_and_loads_nothing():
    text = "".join((files("anyrt.serve") / f"page.{kind}").read_text() for kind in ("html", "js"))
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|Storage|cookie", text
    )
    assert re.findall(r"https?://[^'\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.findall(
        r"\b(src|href|action|style|on\w+)=", (files("anyrt.serve") / "page.html").read_text()
    )


def test_page_is_without_token_for_known_hosts_and_can_be_left_out(serving, neg):
    server = serving(neg, env={"ANYRT_SERVE_TOKEN": "secret"})
    status, _, text = get(server)
    assert status == 200
    assert "neg" not in text
    assert get(server, Host="evil.example")[0] == 400
    assert get(server, "/metrics")[0] == 401
    assert get(serving(neg, "--no-page"))[0] == 404


def test_answers_are_counted_by_their_duration(serving, neg):
    server = serving(neg)
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]}
    for _ in range(2):
        urllib.request.urlopen(server.url("/v2/models/neg/infer"), json.dumps(body).encode()).read()
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(server.url("/v2/models/neg/infer"), b"{}")
    _, _, text = get(server, "/metrics")
    counts = re.findall(
        r'^anyrt_request_duration_seconds_bucket{le="(.*?)",model="neg",version="1"} (.*)$', text, re.M
    )
    assert [le for le, _ in counts][:3] == ["0.0001", "0.0002", "0.0004"]
    assert counts[-1] == ("+Inf", "2.0")
    assert [float(n) for _, n in counts] == sorted(float(n) for _, n in counts)
    assert float(re.search(r"^anyrt_request_duration_seconds_sum.* (.*)$", text, re.M)[1]) > 0
