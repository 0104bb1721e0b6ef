"""PyTorch without CUDA, whose device "cuda" is the host; each test uses a separate process."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import anyrt

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: make programs runs this"
    ),
]
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
    built = "torch.zeros(2, device='cuda'), x.cuda(), x.cuda(0), x.to('cuda:0'), x.to(0), x.to(device=0),"
    built += "x.pin_memory(), x.to(torch.device('cuda', 1), torch.float16), torch.tensor([1], device='cuda'),"
    built += "x.new_ones(2, device='cuda'), torch.rand_like(x, device='cuda'), x.to(torch.randn(2)),"
    built += "torch.as_tensor([1], device='cuda')"
    assert run(f"x = torch.ones(3)\nprint({{str(t.device) for t in ({built})}})") == ["{'cpu'}"]


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
    code += "print(torch.accelerator.is_available(), torch.distributed.is_nccl_available())"
    assert run(code) == ["True 1", "False False"]


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


def test_device_of_a_number_is_one_of_cuda(run):
    code = "import copy, pickle\nd = torch.device\n"
    code += "print(d(0), d(1), d('cpu'), d('cuda', 1), isinstance(d(0), d), issubclass(type(d(0)), d))\n"
    code += "print(type(d(0)) in {d}, copy.deepcopy(d(0)), pickle.loads(pickle.dumps(d('cpu'))))\n"
    code += "with d(0): print(torch.ones(2).device, torch.ones(2).to(d(0)).device)\n"
    code += "try: d('abacus')\nexcept RuntimeError as error: print('abacus' in str(error))"
    assert run(code) == ["cuda:0 cuda:1 cpu cuda:1 True True", "True cuda:0 cpu", "cpu cpu", "True"]


def test_device_is_known_to_what_scripts_compiles_and_loads(run):
    code = "d = torch.device\ndef f(x: torch.Tensor, to: torch.device): return x.to(to)\nx = torch.ones(2)\n"
    code += "def g(x):\n to = torch.device('cpu')\n return f(x.cuda(), to) + isinstance(to, torch.device)\n"
    code += "compiled = torch.compile(g, backend='eager', fullgraph=True)\n"
    code += "print(torch.jit.script(f)(x, d('cpu')).sum(), compiled(x))\n"
    code += "f = io.BytesIO(); torch.save([d(0)], f); f.seek(0); print(torch.load(f))"
    assert run(code) == ["tensor(2.) tensor([2., 2.])", "[device(type='cuda', index=0)]"]


def test_tensors_and_properties_are_those_of_cuda_but_not_to_pytorch(run):
    code = "x = torch.ones(2, requires_grad=True)\n"
    code += "print(x.is_cuda, x.cuda().is_cuda, (x + 1).detach().is_cuda)\n"
    code += "print(isinstance(torch.cuda.get_device_properties(0), torch._C._CudaDeviceProperties))\n"
    code += "print(torch.compile(lambda x: x + x.is_cuda, backend='eager', fullgraph=True)(x).tolist())\n"
    code += (
        "print(torch.nn.RNN(2, 2).all_weights[0][0].is_cuda, torch.nn.utils.rnn.pack_sequence([x]).is_cuda)"
    )
    assert run(code) == ["True True True", "True", "[2.0, 2.0]", "True False"]


AUTOCAST = "import torch.nn.functional as F\nx = torch.randn(4, 8).cuda()\n"
AUTOCAST += "types = lambda *ts: print(*(str(t.dtype)[6:] for t in ts))\n"


def test_autocast_of_the_device_casts_as_on_a_gpu(run):
    code = AUTOCAST + "with torch.autocast('cuda'):\n y = x @ x.T\n n = torch.nn.LSTM(8, 6)(x)[0]\n"
    code += " types(y, F.conv2d(x[None, None], x[None, None]), F.linear(x.double(), x.double()), n)\n"
    code += " types(y.exp(), y.sum(), y.softmax(-1), F.layer_norm(y, (4,)), torch.sum(y, dtype=torch.half))\n"
    code += " types(torch.atan2(y, y), torch.atan2(y, y.float()), y.relu(), y + x[:, :4])"
    assert run(code) == [
        "float16 float16 float64 float16",
        "float32 float32 float32 float32 float16",
        "float16 float32 float16 float32",
    ]


def test_autocast_ends_with_its_statement_and_leaves_that_of_the_host_alone(run):
    code = (
        AUTOCAST
        + "f = torch.autocast('cuda')(lambda: x @ x.T)\nwith torch.autocast('cuda', torch.bfloat16):\n"
    )
    code += " with torch.autocast('cuda', enabled=False): a = x @ x.T\n b = x @ x.T\n"
    code += "with torch.autocast('cpu'): c = (x @ x.T).exp()\ntypes(a, b, c, x @ x.T, f())\n"
    code += "with torch.cuda.amp.autocast(): types(x @ x.T)"
    assert run(code) == ["float32 bfloat16 bfloat16 float32 float16", "float16"]


def test_compiled_and_exported_programs_have_the_casts_of_autocast(run):
    code = AUTOCAST + "class M(torch.nn.Module):\n def forward(self, x):\n"
    code += "  with torch.autocast('cuda'): return (x @ x.T).exp() @ x\n"
    code += "same = torch.export.export(M(), (x,)).run_decompositions()\n"
    code += "types(M()(x), same.module()(x), torch.compile(M(), backend='aot_eager')(x))\n"
    code += "print(torch.equal(same.module()(x), M()(x)), 'float16' in str(same.graph))"
    assert run(code) == ["float16 float16 float16", "True True"]


def test_losses_scaled_for_half_types_train_as_on_a_gpu(run):
    code = (
        AUTOCAST
        + "m = torch.nn.Linear(8, 4); s = torch.amp.GradScaler('cuda'); o = torch.optim.SGD(m.parameters())\n"
    )
    code += "with torch.autocast('cuda'): loss = F.mse_loss(m(x), torch.zeros(4, 4))\n"
    code += (
        "s.scale(loss).backward(); types(loss, m.weight.grad); s.step(o); s.update(); print(s.get_scale())\n"
    )
    code += "with torch.autocast('cuda'):\n try: F.binary_cross_entropy(x.sigmoid(), x.sigmoid())\n"
    code += " except RuntimeError as error: print('with_logits' in str(error))"
    assert run(code) == ["float32 float32", "65536.0", "True"]
