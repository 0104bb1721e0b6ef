"""PyTorch without CUDA, whose device "cuda" is the host; in processes of their own."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import anyrt

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (extra: programs)"
)
START = "import torch, io, warnings; warnings.simplefilter('ignore')\n"


@pytest.fixture
def run(tmp_path):
    def lines(code: str) -> list[str]:
        environ = {**os.environ, "PYTHONPATH": str(Path(anyrt.__file__).parents[1])}
        (tmp_path / "program.py").write_text(START + code)
        command = [sys.executable, "-m", "anyrt.compat", tmp_path / "program.py"]
        done = subprocess.run(command, capture_output=True, text=True, env=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return lines


def test_every_spelling_of_the_device_is_the_host(run):
    made = "torch.zeros(2, device='cuda'), x.cuda(), x.cuda(0), x.to('cuda:0'), x.to(0), x.to(device=0),"
    made += "x.pin_memory(), x.to(torch.device('cuda', 1), torch.float16), torch.tensor([1], device='cuda'),"
    made += "x.new_ones(2, device='cuda'), torch.rand_like(x, device='cuda'), x.to(torch.randn(2)),"
    made += "torch.as_tensor([1], device='cuda')"
    assert run(f"x = torch.ones(3)\nprint({{str(t.device) for t in ({made})}})") == ["{'cpu'}"]


def test_modules_and_saved_weights_go_there_too(run):
    code = "m = torch.nn.Linear(2, 3, device='cuda').cuda().to('cuda').to(0)\n"
    code += "f = io.BytesIO(); torch.save(m.state_dict(), f); f.seek(0)\n"
    code += (
        "print({p.device.type for p in [*m.parameters(), *torch.load(f, map_location='cuda').values()]})\n"
    )
    code += "with torch.device('cuda'): print(torch.ones(2).device)"
    assert run(code) == ["{'cpu'}", "cpu"]


def test_streams_are_current_inside_with_statements_only(run):
    code = "a, b = torch.cuda.Stream(), torch.cuda.Stream()\nnow = torch.cuda.current_stream\n"
    code += "with torch.cuda.stream(a):\n with b: print(now() == b)\n print(now() == a)\n"
    code += "print(now().cuda_stream, torch.cuda.ExternalStream(a.cuda_stream) == a, a == b)"
    assert run(code) == ["True", "True", "0 True False"]


def test_events_measure_time_between_records(run):
    code = "a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)\n"
    code += "a.record(); b.record(torch.cuda.current_stream()); torch.cuda.synchronize()\n"
    code += "print(0 <= a.elapsed_time(b) < 1e4, b.query())"
    assert run(code) == ["True True"]


def test_pytorch_itself_still_knows_that_it_has_no_cuda(run):
    code = "print(torch.cuda.is_available(), torch.cuda.device_count())\n"
    code += "with torch.random.fork_rng(): torch.manual_seed(0)\n"
    code += "print(torch.cuda.amp.common.amp_definitely_not_available())"
    assert run(code) == ["True 1", "True"]


def test_functions_are_scripted_exported_and_compiled_as_before(run):
    code = "def f(x: torch.Tensor):\n return torch.zeros([3]) + torch.arange(3).to(torch.float32) + x\n"
    code += "class M(torch.nn.Module):\n def forward(self, x): return f(x)\nx = torch.ones(3)\n"
    code += "calls = [torch.jit.script(f), torch.jit.trace(f, x), torch.compile(f, backend='eager')]\n"
    code += "calls.append(torch.export.export(M(), (x,)).module())\n"
    code += "print([c(x).tolist() for c in calls] == [[1.0, 2.0, 3.0]] * 4)"
    assert run(code) == ["True"]


def test_memory_of_a_tensor_is_device_memory(run):
    code = "import ctypes, numpy as np; from cuda import cudart\nx = torch.arange(4.0, device='cuda')\n"
    code += "h = np.zeros(4, np.float32); code, = cudart.cudaMemcpy(h.ctypes.data, x.data_ptr(), 16, 2)\n"
    code += "print(int(code), h.tolist())"
    assert run(code) == ["0 [0.0, 1.0, 2.0, 3.0]"]


def test_replayed_graph_computes_for_what_its_inputs_hold_then(run):
    code = "x, g = torch.zeros(3), torch.cuda.CUDAGraph()\n"
    code += "with torch.cuda.graph(g):\n inside = torch.cuda.is_current_stream_capturing()\n"
    code += " z = x[1:] * 2 + 1\n x.add_(1)\n"
    code += "print(inside, torch.cuda.is_current_stream_capturing(), x.tolist())\n"
    code += "x.copy_(torch.tensor([5., 6., 7.]))\ng.replay()\nprint(z.tolist(), x.tolist())\n"
    code += "g.replay()\nprint(z.tolist(), x.tolist())\ng.reset()\n"
    code += "try: g.replay()\nexcept RuntimeError as error: print(error)"
    assert run(code) == [
        "True False [0.0, 0.0, 0.0]",
        "[13.0, 15.0] [6.0, 7.0, 8.0]",
        "[15.0, 17.0] [7.0, 8.0, 9.0]",
        "Called CUDAGraph::replay without a preceding successful capture.",
    ]


def test_generators_and_old_types_of_the_device_are_those_of_the_host(run):
    code = (
        "g = torch.Generator(device='cuda').manual_seed(3)\na = torch.randn(2, generator=g, device='cuda')\n"
    )
    code += "b = torch.randn(2, generator=torch.Generator().manual_seed(3))\n"
    code += "print(torch.equal(a, b), isinstance(torch.default_generator, torch.Generator), g.device)\n"
    code += "print(torch.cuda.HalfTensor([1, 2]).dtype, torch.ones(1).type(torch.cuda.LongTensor).dtype)"
    assert run(code) == ["True True cpu", "torch.float16 torch.int64"]


GRAPH = "s, g = torch.cuda.Stream(), torch.cuda.CUDAGraph()\nx, n = torch.ones(3).cuda(), torch.zeros(1)\n"


def test_operators_of_a_graph_write_to_the_memory_of_their_capture(run):
    code = GRAPH + "with torch.cuda.graph(g, stream=s):\n y = torch.relu(x @ torch.ones(3, 2)) + 1\n n += 1\n"
    code += "print(n.item(), torch.cuda.current_stream() == s)\nx.fill_(2); g.replay(); g.replay()\n"
    code += "print(y.tolist(), n.item())\ng.reset()\ntry: g.replay()\nexcept RuntimeError as e: print(e)"
    said = "Called CUDAGraph::replay without a preceding successful capture."
    assert run(code) == ["0.0 False", "[7.0, 7.0] 2.0", said]
