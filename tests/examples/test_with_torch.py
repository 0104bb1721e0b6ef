"""Networks of the examples, in their own sizes, agree with PyTorch for the same weights."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make programs runs this")

pytestmark = pytest.mark.programs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLOSE = 2e-5  # relative to the largest number: both compute in float32, in another order


def example(name):
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))


def noise(*shape):
    return np.random.default_rng(3).standard_normal(shape, np.float32)


def assert_close(got, want):
    want = want.detach().numpy()
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=CLOSE * np.abs(want).max())


def tensors(weights):
    return {name: torch.from_numpy(array) for name, array in weights.items()}


def resnet18(net, size, w, x):
    f = torch.nn.functional

    def step(x, name, norm, stride=1):
        kernel = w[f"{name}.weight"]
        parts = (w[f"{norm}.{p}"] for p in ("running_mean", "running_var", "weight", "bias"))
        return f.batch_norm(f.conv2d(x, kernel, None, stride, kernel.shape[-1] // 2), *parts)

    x = f.max_pool2d(f.relu(step(x, "conv1", "bn1", 2)), 3, 2, 1)
    for name, _, stride in net.blocks(size):
        y = f.relu(step(x, f"{name}.conv1", f"{name}.bn1", stride))
        y = step(y, f"{name}.conv2", f"{name}.bn2")
        if f"{name}.downsample.0.weight" in w:
            x = step(x, f"{name}.downsample.0", f"{name}.downsample.1", stride)
        x = f.relu(x + y)
    return f.linear(x.mean((2, 3)), w["fc.weight"], w["fc.bias"])


def unet(net, size, w, x):
    f = torch.nn.functional

    def block(x, name):
        for part in (f"{name}.0", f"{name}.1"):
            x = f.conv2d(x, w[f"{part}.conv.weight"], padding=1)
            x = f.group_norm(x, net.GROUPS, w[f"{part}.norm.weight"], w[f"{part}.norm.bias"], net.EPSILON)
            x = f.silu(x)
        return x

    stored = [block(x, "down0")]
    for level in range(1, len(size.levels)):
        stored.append(block(f.max_pool2d(stored[-1], 2), f"down{level}"))
    x = stored.pop()
    for level in reversed(range(len(stored))):
        x = f.conv_transpose2d(x, w[f"up{level}.grow.weight"], w[f"up{level}.grow.bias"], 2)
        x = block(torch.cat([stored[level], x], 1), f"up{level}")
    return f.conv2d(x, w["last.weight"], w["last.bias"])


def test_resnet18_agrees_with_pytorch():
    net = example("resnet18")
    size = net.Size()
    weights, image = net.random_weights(size), noise(1, 3, size.image, size.image)
    got = net.build(size, weights).run(image=image)["logits"]
    assert_close(got, resnet18(net, size, tensors(weights), torch.from_numpy(image)))


def test_resnet18_agrees_with_pytorch_where_windows_take_fewer_products():
    net = example("resnet18")
    size = net.Size(image=224)  # the smallest usual size whose second and third stage are worth tiles
    weights, image = net.random_weights(size), noise(1, 3, size.image, size.image)
    got = net.build(size, weights).run(image=image)["logits"]
    assert_close(got, resnet18(net, size, tensors(weights), torch.from_numpy(image)))


def test_a_unet_agrees_with_pytorch():
    net = example("unet")
    size = net.Size()
    weights, image = net.random_weights(size), noise(1, 3, size.image, size.image)
    got = net.build(size, weights).run(image=image)["mask"]
    assert_close(got, unet(net, size, tensors(weights), torch.from_numpy(image)))


def test_an_encoder_agrees_with_pytorch():
    net = example("encoder")
    size = net.Size()
    weights, tokens = net.random_weights(size), noise(1, size.tokens, size.width)
    layer = torch.nn.TransformerEncoderLayer(
        size.width, size.heads, size.hidden, 0.0, "gelu", net.EPSILON, batch_first=True
    )
    whole = torch.nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
    whole.load_state_dict(tensors(weights))
    got = net.build(size, weights).run(tokens=tokens)["encoded"]
    assert_close(got, whole.eval()(torch.from_numpy(tokens)))


def test_an_lstm_cell_agrees_with_pytorch():
    net = example("lstm")
    size = net.Size()
    weights, sequence = net.random_weights(size), noise(10, size.batch, size.input)
    cell, state = torch.nn.LSTMCell(size.input, size.hidden), None
    cell.load_state_dict(tensors(weights))
    for x in torch.from_numpy(sequence):
        state = cell(x, state)
    got = net.follow(net.build(size, weights), size, sequence)
    for actual, want in zip(got, state, strict=True):
        assert_close(actual, want)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_tagger_agrees_with_pytorch(cell):
    net = example("tagger")
    size = net.Size(cell=cell)
    weights = net.random_weights(size)
    w = tensors(weights)
    layer = (torch.nn.LSTM if cell == "lstm" else torch.nn.GRU)(size.width, size.hidden)
    layer.load_state_dict({k.removeprefix("cell."): x for k, x in w.items() if k.startswith("cell.")})
    engine = net.build(size, weights)
    for length in (1, 7, size.longest):
        words = np.random.default_rng(length).integers(0, size.vocabulary, (length, size.batch))
        states, last = layer(w["words.weight"][torch.from_numpy(words)])
        got = engine.run(words=words.astype(np.int32))
        assert_close(got["scores"], states @ w["tags.weight"].T + w["tags.bias"])
        assert_close(got["state"], (last[0] if cell == "lstm" else last)[0])
