"""Graphs of PyTorch's compiler as engines: the same numbers, changed weights, missing operators."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make programs runs this")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: make programs runs this")

torch_compile = pytest.importorskip("anyrt.integrations.torch_compile")
torch_engine = pytest.importorskip("anyrt.integrations.torch_engine")
nn = torch.nn

pytestmark = [
    pytest.mark.programs,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]


@pytest.fixture(autouse=True)
def said(monkeypatch):
    monkeypatch.setattr(torch_compile, "_said", set())
    torch._dynamo.reset()
    torch.manual_seed(0)
    return torch_compile._said


def compiled(model, **options):
    return torch.compile(model, backend=torch_compile.anyrt, **options)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 3, 2, stride=2)

    def forward(self, x):
        return torch.cat([x, self.up(nn.functional.silu(self.norm(self.down(x))))], 1)


MODELS = {
    "convolutions": (Net, [(2, 3, 16, 16)]),
    "lstm": (lambda: nn.LSTM(6, 7, 2, batch_first=True, bidirectional=True), [(2, 5, 6)]),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), [(2, 5, 16)]),
    "encoder that normalises first": (
        lambda: nn.TransformerEncoderLayer(
            16, 2, 32, batch_first=True, norm_first=True, activation="gelu", layer_norm_eps=1e-3
        ),
        [(2, 5, 16)],
    ),
    "attention": (lambda: nn.MultiheadAttention(16, 4, batch_first=True), [(2, 5, 16)] * 3),
}


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_model_gives_the_numbers_of_pytorch(name, said):
    make, shapes = MODELS[name]
    model, inputs = make().eval(), [torch.randn(s) for s in shapes]
    torch.testing.assert_close(compiled(model)(*inputs), model(*inputs), atol=1e-4, rtol=1e-4)
    assert said == set()


@torch.no_grad()
@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("masks", ["", "attn_mask", "key_padding_mask", "both"])
def test_attention_to_itself_gives_the_numbers_and_weights_of_pytorch(masks, averaged, said):
    model, x = nn.MultiheadAttention(16, 4, batch_first=True).eval(), torch.randn(2, 5, 16)
    all_masks = {
        "attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1),
        "key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
    }
    inputs = {n: m for n, m in all_masks.items() if masks in (n, "both")}
    ours, theirs = (f(x, x, x, average_attn_weights=averaged, **inputs) for f in (compiled(model), model))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert said == set()


@torch.no_grad()
def test_open_sizes_need_one_engine(monkeypatch):
    built = []
    monkeypatch.setattr(torch_compile, "engine_of", lambda *a: built.append(a) or torch_engine.engine_of(*a))
    model = Net().eval()
    run = compiled(model, dynamic=True)
    for shape in ((1, 3, 16, 16), (2, 3, 32, 24), (5, 3, 8, 64)):
        x = torch.randn(shape)
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
    assert len(built) == 2  # a batch of 1 is a separate graph


@torch.no_grad()
def test_number_that_no_tensor_has_keeps_its_graph_in_pytorch():
    x, run = torch.randn(3, 8), compiled(lambda x, n: x[:, :n] * n)
    with pytest.warns(UserWarning, match="numbers as inputs; "):
        results = [run(x, n) for n in (1, 2, 3, 5)]
    assert all(torch.equal(y, x[:, :n] * n) for y, n in zip(results, (1, 2, 3, 5), strict=True))


@torch.no_grad()
def test_changed_weights_are_seen():
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    run = compiled(model)
    before = run(x)
    model.weight.mul_(2)
    torch.testing.assert_close(run(x), model(x))
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    torch.testing.assert_close(run(x), model(x))
    assert not torch.equal(before, run(x))


@torch.no_grad()
@pytest.mark.parametrize("sizes", [(3, 4), (300, 400)])
def test_weights_changed_past_what_pytorch_counts_are_seen(sizes):
    model, x = nn.Linear(*sizes), torch.randn(2, sizes[0])
    run = compiled(model)
    for change in (
        lambda: None,
        lambda: model.weight.data.mul_(2),
        lambda: model.weight.data.copy_(torch.randn(sizes[::-1])),
        lambda: model.bias.data.add_(1),
        lambda: setattr(model.weight, "data", torch.randn(sizes).t()),
        lambda: model.weight.data.neg_(),
    ):
        change()
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)


def test_threads_share_engines_while_one_of_them_builds():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    run = compiled(model)

    @torch.no_grad()
    def work(k):
        xs = [torch.randn(k + 1, 8) for _ in range(10)]
        return all(torch.allclose(run(x), model(x), atol=1e-5) for x in xs)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4


@torch.no_grad()
def test_missing_operator_stays_in_pytorch_and_is_reported_once():
    def f(x):
        return torch.special.bessel_j0(torch.relu(x)).sin() * 2 + torch.cos(x)

    xs = [torch.randn(4, 5), torch.randn(6, 5)]
    with pytest.warns(UserWarning, match=r"no operator for prims\.bessel_j0\.default; the rest") as caught:
        run = [compiled(f, dynamic=False)(x) for x in xs]
    torch.testing.assert_close(run, [f(x) for x in xs])
    assert sum("bessel" in str(w.message) for w in caught) == 1


@torch.no_grad()
def test_operator_that_the_parser_rejects_stays_in_pytorch(monkeypatch):
    refuse = torch_engine.Refused("AnyRT refuses it", frozenset({"aten.cos.default"}))
    real = torch_engine.engine_of

    def engine_of(module, inputs):
        if any(str(n.target) == "aten.cos.default" or "cos" in n.name for n in module.graph.nodes):
            raise refuse
        return real(module, inputs)

    monkeypatch.setattr(torch_compile, "engine_of", engine_of)
    x = torch.randn(4)
    with pytest.warns(UserWarning, match="AnyRT refuses it; the rest becomes engines"):
        y = compiled(lambda x: torch.cos(torch.relu(x) + 1).exp() * 2)(x)
    torch.testing.assert_close(y, torch.cos(torch.relu(x) + 1).exp() * 2)


@torch.no_grad()
def test_random_numbers_are_those_of_pytorch():
    def draw(x):
        torch.manual_seed(1)
        return torch.rand_like(x) + x

    x = torch.randn(8)
    with pytest.warns(UserWarning, match=r"aten\.rand_like"):
        assert torch.equal(compiled(draw)(x), draw(x))


@torch.no_grad()
def test_graph_that_changes_its_input_stays_in_pytorch():
    x, run = torch.zeros(3), compiled(lambda x: x.add_(1) * 2)
    with pytest.warns(UserWarning, match="changes its inputs or buffers; the graph stays in PyTorch"):
        assert run(x).tolist() == [2, 2, 2]
    assert x.tolist() == [1, 1, 1]


def test_gradients_are_those_of_pytorch():
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    with pytest.warns(UserWarning, match="gradients"):
        compiled(model)(x).sum().backward()
    assert model.weight.grad.shape == (2, 3)


@torch.no_grad()
def test_types_sizes_and_shapes_of_all_kinds():
    cases = [
        (lambda x: torch.relu(x) @ x.t(), torch.randn(4, 5).half()),
        (lambda x: (x > 0) & (x < 1), torch.randn(4, 5).bfloat16()),
        (lambda x: (x // 3, x.float().mean()), torch.arange(12)),
        (torch.relu, torch.zeros(0, 5)),
        (lambda x: x.t() + 1, torch.randn(5, 4).t()),
        (lambda x: x[x > 0], torch.randn(4, 5)),
        (lambda x: (x.size(0), x + 1), torch.randn(4, 5)),
    ]
    for f, x in cases:
        torch.testing.assert_close(compiled(f, dynamic=x.dim() == 2)(x), f(x))
        torch._dynamo.reset()


def test_backend_is_found_by_its_name():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "anyrt" in torch._dynamo.list_backends()
