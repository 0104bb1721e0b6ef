"""The models with random weights: their inputs, and their export to ONNX files.

python -m benchmarks.models.networks FOLDER [NAME ...]
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.contractions.tables import EFFICIENTNET_B0, MOBILENET_V2
from benchmarks.models import blocks
from benchmarks.models.blocks import Attention, normalised

OPSET = 17
PHOTO = (1, 3, 224, 224)
CODES = 0.02  # codes of bytes may be the next ones, where numbers lie halfway


@dataclass(frozen=True, slots=True)
class Network:
    """A module and its inputs by name. `finish`: nodes that only the ONNX model has, so that programs that
    run the module leave the model out. `near`: the permitted error of an output, as a part of its largest
    magnitude."""

    module: nn.Module
    inputs: dict[str, Tensor]
    finish: Callable[[onnx.ModelProto], None] | None = None
    near: float = 1e-3  # sums of other orders


def resnet50() -> Network:
    parts: list[nn.Module] = [*normalised(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            parts.append(blocks.Bottleneck(before, width, 1 if k else stride))
            before = 4 * width
    return Network(nn.Sequential(*parts, *_classes(before)), {"x": torch.randn(PHOTO)})


def _classes(width: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)]


def _inverted(act: type[nn.Module], gated: bool, sizes: tuple[tuple[int, ...], ...]) -> Network:
    parts: list[nn.Module] = [*normalised(3, 32, 3, 2), act()]
    before = 32
    for wider, after, count, stride, size in sizes:
        for k in range(count):
            parts.append(blocks.Inverted(before, after, 1 if k else stride, wider, size, act, gated))
            before = after
    parts += [*normalised(before, 1280, 1), act(), *_classes(1280)]
    return Network(nn.Sequential(*parts), {"x": torch.randn(PHOTO)})


class ViT(nn.Module):
    """Patches of an image through a transformer."""

    def __init__(self, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, 16, 16)
        self.begin = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 197, width))
        self.body = nn.Sequential(*(blocks.Block(width, heads) for _ in range(12)), nn.LayerNorm(width))
        self.last = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.begin.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.last(self.body(x)[:, 0])


class Bert(nn.Module):
    """Words through a transformer, some of them masked."""

    def __init__(self, width: int = 768) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30522, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        self.body = nn.ModuleList(blocks.Block(width, 12, after=True) for _ in range(12))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        at = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.words(ids) + self.places(at))
        hidden = (1.0 - mask[:, None, None, :].to(x.dtype)) * -1e9
        for block in self.body:
            x = block(x, hidden)
        return x


def bert() -> Network:
    ids = torch.randint(0, 30522, (1, 128))
    return Network(Bert(), {"ids": ids, "mask": torch.ones_like(ids)})


class UNet(nn.Module):
    """The architecture of diffusion models: group normalisations, attention in the middle, shortcuts."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 64, 3, 1, 1)
        self.down = nn.ModuleList([blocks.Residual(64, 128), blocks.Residual(128, 256)])
        self.middle, self.attention = blocks.Residual(256, 256), Attention(256, 4)
        self.up = nn.ModuleList([blocks.Residual(512, 128), blocks.Residual(256, 64)])
        self.last = nn.Sequential(nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 4, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        a = self.down[0](self.first(x))
        b = self.down[1](functional.avg_pool2d(a, 2))
        m = self.middle(functional.max_pool2d(b, 2))
        rows = m.flatten(2).transpose(1, 2)
        m = m + self.attention(rows).transpose(1, 2).reshape(m.shape)
        y = self.up[0](torch.cat((functional.interpolate(m, scale_factor=2.0), b), 1))
        wide = functional.interpolate(y, scale_factor=2.0, mode="bilinear")
        return self.last(self.up[1](torch.cat((wide, a), 1)))


class Detector(nn.Module):
    """Boxes and class scores of three grids."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        widths = (32, 64, 128, 256)
        self.first = nn.Sequential(*normalised(3, 16, 3, 2), nn.SiLU())
        self.body = nn.ModuleList(
            nn.Sequential(*normalised(b, a, 3, 2), nn.SiLU(), blocks.Split(a, a, 1 + (a in (64, 128))))
            for b, a in zip((16, *widths), widths, strict=False)
        )
        self.mix = nn.ModuleList([blocks.Split(256 + 128, 128, 1), blocks.Split(128 + 64, 64, 1)])
        self.boxes = nn.ModuleList(nn.Conv2d(w, 4, 1) for w in (64, 128, 256))
        self.scores = nn.ModuleList(nn.Conv2d(w, classes, 1) for w in (64, 128, 256))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = []
        x = self.first(x)
        for body in self.body:
            x = body(x)
            seen.append(x)
        middle = self.mix[0](torch.cat((functional.interpolate(seen[3], scale_factor=2.0), seen[2]), 1))
        fine = self.mix[1](torch.cat((functional.interpolate(middle, scale_factor=2.0), seen[1]), 1))
        grids = (fine, middle, seen[3])
        boxes = torch.cat([f(y).flatten(2) for f, y in zip(self.boxes, grids, strict=True)], 2)
        scores = torch.cat([f(y).flatten(2) for f, y in zip(self.scores, grids, strict=True)], 2)
        centre, size = boxes.sigmoid().transpose(1, 2).chunk(2, 2)
        corners = torch.cat((centre - size / 2, centre + size / 2), 2) * x.shape[-1]
        return corners, scores.sigmoid()


def _suppressed(model: onnx.ModelProto) -> None:
    """NonMaxSuppression behind the detector: 100 boxes of each class at most."""
    graph = model.graph
    limits = (np.array([100], np.int64), np.array([0.5], np.float32), np.array([0.55], np.float32))
    names = ["most", "overlap", "least"]
    graph.initializer.extend(onnx.numpy_helper.from_array(x, n) for x, n in zip(limits, names, strict=True))
    outputs = [o.name for o in graph.output]
    graph.node.append(helper.make_node("NonMaxSuppression", [*outputs, *names], ["kept"], name="suppress"))
    graph.output.append(helper.make_tensor_value_info("kept", TensorProto.INT64, ("found", 3)))


class Tagger(nn.Module):
    """Words to scores of tags."""

    def __init__(self, cell: type[nn.RNNBase]) -> None:
        super().__init__()
        self.words = nn.Embedding(10000, 128)
        self.cell = cell(128, 256, 2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(512, 17)

    def forward(self, words: Tensor) -> Tensor:
        return functional.log_softmax(self.tags(self.cell(self.words(words))[0]), -1)


class Llama(nn.Module):
    """A decoding step: logits of the token, and caches extended by its keys and values."""

    def __init__(self, width: int = 768, heads: int = 12, layers: int = 6) -> None:
        super().__init__()
        wide = 2048
        self.words = nn.Embedding(8000, width)
        self.attention = nn.ModuleList(Attention(width, heads, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(blocks.RMSNorm(width) for _ in range(2 * layers + 1))
        self.gate, self.up = (
            nn.ModuleList(nn.Linear(width, wide, bias=False) for _ in range(layers)) for _ in range(2)
        )
        self.down = nn.ModuleList(nn.Linear(wide, width, bias=False) for _ in range(layers))
        self.last = nn.Linear(width, 8000, bias=False)
        each = width // heads
        # No buffer: angles of late places have no digits left in the narrow types that modules are cast to.
        self.angles = 10000.0 ** (-torch.arange(0, each, 2).float() / each)

    def forward(self, words: Tensor, place: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        x = self.words(words)
        angle = place[:, None, :, None].float() * torch.cat((self.angles, self.angles))
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        new_keys, new_values = [], []
        for n, at in enumerate(self.attention):
            h = self.norms[2 * n](x)
            q, k = (_turned(at.split(f(h)), cos, sin) for f in (at.q, at.k))
            k, v = torch.cat((keys[n], k), 2), torch.cat((values[n], at.split(at.v(h))), 2)
            x = x + at.among(q, k, v)
            h = self.norms[2 * n + 1](x)
            x = x + self.down[n](functional.silu(self.gate[n](h)) * self.up[n](h))
            new_keys.append(k)
            new_values.append(v)
        return self.last(self.norms[-1](x)), torch.stack(new_keys), torch.stack(new_values)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def llama() -> Network:
    caches = [torch.randn(6, 1, 12, 255, 64) for _ in range(2)]
    names = ("words", "place", "keys", "values")
    return Network(
        Llama(), dict(zip(names, (torch.tensor([[7]]), torch.tensor([[255]]), *caches), strict=True))
    )


class Whisper(nn.Module):
    """A decoding step with attention to its cache and to the output of an encoder."""

    def __init__(self, width: int = 384, heads: int = 6, layers: int = 4) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(8000, width), nn.Embedding(448, width)
        self.own, self.other = (
            nn.ModuleList(Attention(width, heads) for _ in range(layers)) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 * layers + 1))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.narrow = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))

    def forward(
        self, word: Tensor, keys: Tensor, values: Tensor, heard_keys: Tensor, heard_values: Tensor
    ) -> tuple[Tensor, ...]:
        past = torch.tensor([keys.shape[3]])
        x = self.words(word) + self.places(past)
        new_keys, new_values = [], []
        for n, (own, other) in enumerate(zip(self.own, self.other, strict=True)):
            h = self.norms[3 * n](x)
            k = torch.cat((keys[n], own.split(own.k(h))), 2)
            v = torch.cat((values[n], own.split(own.v(h))), 2)
            x = x + own.among(own.split(own.q(h)), k, v)
            q = other.split(other.q(self.norms[3 * n + 1](x)))
            x = x + other.among(q, heard_keys[n], heard_values[n])
            x = x + self.narrow[n](functional.gelu(self.wide[n](self.norms[3 * n + 2](x))))
            new_keys.append(k)
            new_values.append(v)
        return self.norms[-1](x) @ self.words.weight.T, torch.stack(new_keys), torch.stack(new_values)


def whisper() -> Network:
    caches = {n: torch.randn(4, 1, 6, 100, 64) for n in ("keys", "values")}
    heard = {n: torch.randn(4, 1, 6, 1500, 64) for n in ("heard_keys", "heard_values")}
    return Network(Whisper(), {"word": torch.tensor([[7]]), **caches, **heard})


class CRNN(nn.Module):
    """Columns of a line of text to scores of letters."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Sequential(
            nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            *normalised(128, 256), nn.ReLU(), nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d((2, 1)), *normalised(256, 512), nn.ReLU(), nn.MaxPool2d((2, 1)),
            nn.Conv2d(512, 512, (2, 1)), nn.ReLU(),
        )  # fmt: skip
        self.read = nn.LSTM(512, 256, 2, bidirectional=True)
        self.letters = nn.Linear(512, 64)

    def forward(self, image: Tensor) -> Tensor:
        columns = self.see(image).squeeze(2).permute(2, 0, 1)
        return functional.log_softmax(self.letters(self.read(columns)[0]), 2)


class Sound(nn.Module):
    """Gated 1-D convolutions with growing dilation."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv1d(1, 64, 16, 8, 4), nn.GELU(), nn.Conv1d(64, width, 8, 4, 2), nn.GELU()
        )
        self.taps = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 3, padding=2**n, dilation=2**n) for n in range(6)
        )
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(6))
        self.last = nn.Conv1d(width, 10, 1)

    def forward(self, sound: Tensor) -> Tensor:
        x = self.first(sound)
        for taps, mix in zip(self.taps, self.mix, strict=True):
            a, b = taps(x).chunk(2, 1)
            x = x + mix(torch.tanh(a) * torch.sigmoid(b))
        return self.last(torch.relu(x))


def bert_int8() -> Network:
    """With int8 weights, and dynamically quantized activations."""
    return replace(bert(), finish=dynamic_int8, near=CODES)


def resnet50_int8() -> Network:
    """With int8 convolutions."""
    network = resnet50()
    return replace(network, finish=lambda model: static_int8(model, calls_of(network)), near=CODES)


def dynamic_int8(model: onnx.ModelProto) -> None:
    """Quantize weights to int8, and activations at run time."""
    changed(model, lambda path: quantize_dynamic(path, path, weight_type=QuantType.QInt8))


def static_int8(
    model: onnx.ModelProto, calls: list[dict[str, Any]], form: QuantFormat = QuantFormat.QDQ
) -> None:  # Any: arrays
    """Quantize weights and activations to int8, with ranges from calls."""

    def change(path: str) -> None:
        kinds = {"activation_type": QuantType.QUInt8, "per_channel": True}
        quantize_static(path, path, Calls(calls), form, **kinds)

    changed(model, change)


class Calls(CalibrationDataReader):
    """A calibration reader of calls."""

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        self.left = calls

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


def calls_of(network: Network, count: int = 2) -> list[dict[str, Any]]:
    """Random inputs of some calls."""
    return [{n: another(x).numpy() for n, x in network.inputs.items()} for _ in range(count)]


def another(x: Tensor) -> Tensor:
    """Random numbers, or the same integers in another order: indices stay in range."""
    return torch.randn_like(x) if x.is_floating_point() else x.flatten()[torch.randperm(x.numel())].view_as(x)


def changed(model: onnx.ModelProto, change: Callable[[str], object]) -> None:
    """The model after a function that changes files."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        onnx.save(model, path)
        quant_pre_process(path, path, skip_symbolic_shape=True)
        change(path)
        model.CopyFrom(onnx.load(path))


MODELS: dict[str, Callable[[], Network]] = {
    "resnet50": resnet50,
    "mobilenet": lambda: _inverted(nn.ReLU6, False, MOBILENET_V2),
    "efficientnet": lambda: _inverted(nn.SiLU, True, EFFICIENTNET_B0),
    "vit": lambda: Network(ViT(), {"x": torch.randn(PHOTO)}),
    "bert": bert,
    "unet": lambda: Network(UNet(), {"x": torch.randn(1, 4, 64, 64)}),
    "yolo": lambda: Network(Detector(), {"x": torch.randn(1, 3, 320, 320)}, _suppressed),
    "lstm": lambda: Network(Tagger(nn.LSTM), {"words": torch.randint(0, 10000, (1, 64))}),
    "gru": lambda: Network(Tagger(nn.GRU), {"words": torch.randint(0, 10000, (1, 64))}),
    "whisper": whisper,
    "llama": llama,
    "crnn": lambda: Network(CRNN(), {"image": torch.randn(1, 1, 32, 160)}),
    "audio": lambda: Network(Sound(), {"sound": torch.randn(1, 1, 16000)}),
    "resnet50_int8": resnet50_int8,
    "bert_int8": bert_int8,
}


def network_of(name: str) -> Network:
    """A model with fixed weights."""
    torch.manual_seed(0)
    network = MODELS[name]()
    network.module.eval()
    return network


def export(name: str, folder: Path) -> None:
    """Write a model, its inputs and its figures."""
    network = network_of(name)
    path = folder / f"{name}.onnx"
    write(network, path)
    if network.finish is not None:
        model = onnx.load(path)
        network.finish(model)
        onnx.save(model, path)
    arrays: dict[str, Any] = {n: x.numpy() for n, x in network.inputs.items()}  # Any: as savez takes them
    np.savez(folder / f"{name}.npz", **arrays)
    facts = {
        "flops": flops_of(network),
        "bytes": bytes_of(network),
        "finished": network.finish is not None,
        "near": network.near,
    }
    (folder / f"{name}.json").write_text(json.dumps(facts))


def write(network: Network, path: Path) -> None:
    """Write the module to an ONNX file; outputs are y0, y1, ..."""
    with torch.no_grad():
        results = network.module(*network.inputs.values())
    outputs = [f"y{i}" for i in range(len(results) if isinstance(results, tuple) else 1)]
    torch.onnx.export(
        network.module, tuple(network.inputs.values()), str(path), input_names=list(network.inputs),
        output_names=outputs, opset_version=OPSET, dynamo=False,
    )  # fmt: skip


def flops_of(network: Network) -> int:
    """Multiplications and additions of a call. On a CPU, the counter knows attention as products only."""
    whole = sdpa_kernel(SDPBackend.MATH)
    with torch.no_grad(), whole, FlopCounterMode(display=False) as counter:
        network.module(*network.inputs.values())
    return int(counter.get_total_flops()) + _recurrent(network)


def _recurrent(network: Network) -> int:
    """Multiplications and additions of recurrent cells, which PyTorch's counter ignores."""
    total = 0

    def count(cell: nn.RNNBase, args: tuple[Tensor, ...], result: object) -> None:
        nonlocal total
        turns = args[0].shape[0] * args[0].shape[1]
        total += 2 * turns * sum(w.numel() for n, w in cell.named_parameters() if "weight" in n)

    hooks = [
        cell.register_forward_hook(count) for cell in network.module.modules() if isinstance(cell, nn.RNNBase)
    ]
    with torch.no_grad():
        network.module(*network.inputs.values())
    for hook in hooks:
        hook.remove()
    return total


def bytes_of(network: Network) -> int:
    """Bytes of weights and inputs, without embedding tables, of which few rows are read."""
    tables = {id(m.weight) for m in network.module.modules() if isinstance(m, nn.Embedding)}
    weights = (p for p in network.module.parameters() if id(p) not in tables)
    return sum(x.numel() * x.element_size() for x in (*weights, *network.inputs.values()))


def main(folder: str, *names: str) -> None:
    """Write models into a folder."""
    warnings.simplefilter("ignore")
    for name in names or MODELS:
        export(name, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
