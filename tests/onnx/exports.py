"""Models with random weights, exported from PyTorch: taggers, decoder steps, control flow.

python tests/onnx/exports.py FOLDER [NAME ...] [--opset 17] [--dynamo] [--static]

Needs torch, onnx and onnxscript, which AnyRT's tests do not require.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Export:
    """A module, its arguments, the names of its inputs and outputs, and its dynamic axes."""

    module: nn.Module
    args: tuple[Tensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    open: dict[str, dict[int, str]]


class Tagger(nn.Module):
    """Maps words to scores of tags."""

    def __init__(self, cell: type[nn.RNNBase], layers: int = 1, both: bool = True) -> None:
        super().__init__()
        self.words = nn.Embedding(500, 64)
        self.cell = cell(64, 96, layers, batch_first=True, bidirectional=both)
        self.tags = nn.Linear(96 * (1 + both), 17)

    def forward(self, words: Tensor) -> Tensor:
        return functional.log_softmax(self.tags(self.cell(self.words(words))[0]), -1)


def _tagger(cell: type[nn.RNNBase], layers: int, both: bool) -> Export:
    words = torch.randint(0, 500, (2, 12))
    return Export(
        Tagger(cell, layers, both), (words,), ("words",), ("scores",), {"words": {0: "batch", 1: "length"}}
    )


class Turns(nn.Module):
    """An If inside a Loop inside an If."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        y = x
        if bool(x.sum() > 0):
            for k in range(int(turns)):
                if bool(y.mean() > 0.1):  # noqa: SIM108 - a statement, as scripts have them
                    y = torch.tanh(self.near(y))
                else:
                    y = torch.relu(self.far(y)) + k
        else:
            y = -x
        return y


class Until(nn.Module):
    """A loop with a data-dependent number of iterations."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        steps = torch.zeros((), dtype=torch.long)
        while bool(x.abs().sum() > 1.0):
            x = x * 0.5
            steps = steps + 1
        return x, steps


class Attention(nn.Module):
    """Attention of a step to a cache; `plain`: written as its formula, for operator sets without
    attention."""

    def __init__(self, width: int, heads: int, shared: int = 1) -> None:
        super().__init__()
        self.plain = False
        self.heads, self.kept, self.each = heads, heads // shared, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, self.kept * self.each, bias=False)
        self.v = nn.Linear(width, self.kept * self.each, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], heads, self.each).transpose(1, 2)

    def joined(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of `q`: (batch, heads, rows, each) to `k` and `v`, which have fewer heads."""
        k, v = (x.repeat_interleave(self.heads // self.kept, 1) for x in (k, v))
        if self.plain:
            y = torch.softmax(q @ k.transpose(2, 3) * self.each**-0.5, -1) @ v
        else:
            y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1))


class RMSNorm(nn.Module):
    """Numbers divided by the root of their mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding: pairs of `x`, (batch, heads, rows, each), rotated by the angles of their
    positions."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Llama(nn.Module):
    """A decoder step: the logits of the tokens, and the caches with their keys and values appended."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(300, width)
        self.attention = nn.ModuleList(Attention(width, heads, 2) for _ in range(layers))
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(2 * layers + 1))
        self.gate = nn.ModuleList(nn.Linear(width, 2 * width, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 2 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(layers))
        each = width // heads
        self.register_buffer("angles", 10000.0 ** (-torch.arange(0, each, 2).float() / each))

    def forward(self, words: Tensor, positions: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        x = self.words(words)
        angle = positions[:, None, :, None].float() * torch.cat((self.angles, self.angles))
        cos, sin = angle.cos(), angle.sin()
        new_keys, new_values = [], []
        for n, at in enumerate(self.attention):
            h = self.norms[2 * n](x)
            q, k = (rotated(at.split(f(h), c), cos, sin) for f, c in ((at.q, at.heads), (at.k, at.kept)))
            k = torch.cat((keys[n], k), 2)
            v = torch.cat((values[n], at.split(at.v(h), at.kept)), 2)
            x = x + at.joined(q, k, v)
            h = self.norms[2 * n + 1](x)
            x = x + self.down[n](functional.silu(self.gate[n](h)) * self.up[n](h))
            new_keys.append(k)
            new_values.append(v)
        logits = self.norms[-1](x) @ self.words.weight.T
        return logits, torch.stack(new_keys), torch.stack(new_values)


class Whisper(nn.Module):
    """An encoder of spectra with a decoder step, which attends to a cache and to the encoder's output."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.conv = nn.ModuleList(
            [nn.Conv1d(20, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, padding=1)]
        )
        self.hear = Attention(width, heads)
        self.words, self.places = nn.Embedding(300, width), nn.Embedding(64, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.own, self.other = Attention(width, heads), Attention(width, heads)
        self.wide, self.narrow = nn.Linear(width, 128), nn.Linear(128, width)

    def forward(self, sound: Tensor, words: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        x = functional.gelu(self.conv[1](functional.gelu(self.conv[0](sound)))).transpose(1, 2)
        heard = x + self.hear.joined(
            *(self.hear.split(f(x), self.hear.heads) for f in (self.hear.q, self.hear.k, self.hear.v))
        )
        past = keys.shape[2]
        at = torch.arange(past, past + words.shape[1], device=words.device)
        y = self.words(words) + self.places(at)
        h = self.norms[0](y)
        keys, values = (
            torch.cat((old, self.own.split(f(h), self.own.kept)), 2)
            for old, f in ((keys, self.own.k), (values, self.own.v))
        )
        y = y + self.own.joined(self.own.split(self.own.q(h), self.own.heads), keys, values)
        h, c = self.norms[1](y), self.other
        y = y + c.joined(*(c.split(f(t), c.heads) for f, t in ((c.q, h), (c.k, heard), (c.v, heard))))
        y = y + self.narrow(functional.gelu(self.wide(self.norms[2](y))))
        return self.norms[3](y) @ self.words.weight.T, keys, values


class CRNN(nn.Module):
    """Maps the columns of a line of text to scores of letters."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d((2, 1)),
            nn.Conv2d(32, 64, (8, 1)), nn.ReLU(),
        )  # fmt: skip
        self.read = nn.LSTM(64, 48, 2, bidirectional=True)
        self.letters = nn.Linear(96, 40)

    def forward(self, image: Tensor) -> Tensor:
        columns = self.see(image).squeeze(2).permute(2, 0, 1)
        return functional.log_softmax(self.letters(self.read(columns)[0]), 2)


class Sound(nn.Module):
    """A voice detector: 1-D convolutions with filters that depend on the rate, then an LSTM with a state."""

    def __init__(self) -> None:
        super().__init__()
        self.high = nn.Conv1d(1, 24, 32, 16, padding=8)
        self.low = nn.Conv1d(1, 24, 16, 8, padding=4)
        self.body = nn.Sequential(
            nn.Conv1d(24, 24, 3, padding=1, groups=24), nn.Conv1d(24, 32, 1), nn.ReLU(),
            nn.Conv1d(32, 48, 3, 2, padding=1), nn.ReLU(),
        )  # fmt: skip
        self.cell = nn.LSTM(48, 32)
        self.last = nn.Conv1d(32, 1, 1)

    def forward(self, sound: Tensor, rate: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = sound.unsqueeze(1)
        if bool(rate == 16000):  # noqa: SIM108 - a statement, as scripts have them
            y = torch.relu(self.high(x))
        else:
            y = torch.relu(self.low(x))
        y, (h, c) = self.cell(self.body(y).permute(2, 0, 1), (h, c))
        return torch.sigmoid(self.last(torch.relu(y).permute(1, 2, 0))).mean(2), h, c


def _decoder(past: int = 5) -> Export:
    words, positions = torch.randint(0, 300, (2, 3)), torch.arange(past, past + 3).expand(2, 3)
    caches = [torch.randn(2, 2, 2, past, 16) for _ in range(2)]
    axes = {n: {0: "batch", 1: "rows"} for n in ("words", "positions")}
    axes |= {n: {1: "batch", 3: "past"} for n in ("keys", "values")}
    return Export(
        Llama(), (words, positions, *caches), ("words", "positions", "keys", "values"),
        ("logits", "new_keys", "new_values"), axes,
    )  # fmt: skip


def _speech(past: int = 4) -> Export:
    sound, words = torch.randn(1, 20, 60), torch.randint(0, 300, (1, 2))
    caches = [torch.randn(1, 4, past, 16) for _ in range(2)]
    axes = {"sound": {2: "frames"}, "words": {1: "rows"}, "keys": {2: "past"}, "values": {2: "past"}}
    names = ("sound", "words", "keys", "values")
    return Export(Whisper(), (sound, words, *caches), names, ("logits", "new_keys", "new_values"), axes)


def _sound() -> Export:
    args = (torch.randn(1, 512), torch.tensor(16000), torch.zeros(1, 1, 32), torch.zeros(1, 1, 32))
    names = ("sound", "rate", "h", "c")
    return Export(torch.jit.script(Sound()), args, names, ("voice", "next_h", "next_c"), {"sound": {1: "n"}})


def _turns() -> Export:
    args = (torch.rand(2, 8), torch.tensor(3))
    return Export(torch.jit.script(Turns()), args, ("x", "turns"), ("y",), {"x": {0: "rows"}})


def _until() -> Export:
    return Export(
        torch.jit.script(Until()), (torch.rand(2, 8) + 1,), ("x",), ("y", "steps"), {"x": {0: "rows"}}
    )


def _crnn() -> Export:
    image = torch.randn(2, 1, 32, 48)
    return Export(CRNN(), (image,), ("image",), ("letters",), {"image": {0: "batch", 3: "width"}})


MODELS: dict[str, Callable[[], Export]] = {
    "lstm_tagger": lambda: _tagger(nn.LSTM, 1, True),
    "lstm_deep": lambda: _tagger(nn.LSTM, 2, False),
    "gru_tagger": lambda: _tagger(nn.GRU, 2, True),
    "rnn_tagger": lambda: _tagger(nn.RNN, 1, False),
    "turns": _turns,
    "until": _until,
    "llama_step": _decoder,
    "whisper_step": _speech,
    "crnn": _crnn,
    "sound": _sound,
}


def results(export: Export) -> tuple[Tensor, ...]:
    """The outputs of a module."""
    with torch.no_grad():
        values = export.module(*export.args)
    return values if isinstance(values, tuple) else (values,)


def built(name: str, opset: int) -> Export:
    """A model with fixed random weights."""
    torch.manual_seed(0)
    export = MODELS[name]()
    if not isinstance(export.module, torch.jit.ScriptModule):
        export.module.eval()
    for part in export.module.modules():
        if isinstance(part, Attention):
            part.plain = opset < 14
    return export


def export(name: str, path: Path, opset: int, dynamo: bool, static: bool) -> None:
    """Write a model."""
    model = built(name, opset)
    options: dict[str, object] = {}
    if not static:
        axes = model.open
        options = {"dynamic_axes": axes}
        if dynamo:
            dims = {d: torch.export.Dim.DYNAMIC for v in axes.values() for d in v.values()}
            options = {
                "dynamic_shapes": tuple(
                    {a: dims[d] for a, d in axes.get(n, {}).items()} for n in model.inputs
                )
            }
    torch.onnx.export(
        model.module, model.args, str(path), input_names=list(model.inputs),
        output_names=list(model.outputs), opset_version=opset, dynamo=dynamo, **options,
    )  # fmt: skip


def main() -> None:
    """Write the models that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--opset", type=int, default=17)
    parser.add_argument("--dynamo", action="store_true")
    parser.add_argument("--static", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in asked.names or MODELS:
        kind = f"{'dynamo' if asked.dynamo else 'script'}_{'static' if asked.static else 'open'}"
        path = asked.folder / f"{name}_{asked.opset}_{kind}.onnx"
        try:
            export(name, path, asked.opset, asked.dynamo, asked.static)
            print(path)
        except Exception as error:  # report the models that PyTorch cannot export, and write the others
            print(f"{path}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")


if __name__ == "__main__":
    main()
