"""The models as files: float32, bfloat16 and int8, with inputs, batches for calibration and float64 results.

python -m benchmarks.bits.networks FOLDER MODEL FORM ...     a form as `Form` names it
"""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import torch
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
from torch import Tensor, nn

from benchmarks.bits.files import Facts, Files, Form
from benchmarks.bits.narrow import in_bfloat16
from benchmarks.models import networks
from benchmarks.models.networks import (
    PHOTO,
    Calls,
    Made,
    ViT,
    another,
    bytes_of,
    calls_of,
    changed,
    flops_of,
    write,
)

BATCHES = 2  # that ranges are learnt of


def vit_small() -> Made:
    """With 22 million weights."""
    return Made(ViT(384, 6), {"x": torch.randn(PHOTO)})


def made(name: str) -> Made:
    """A model with the weights that it always has; NAME_xN: with so many images."""
    model, _, batch = name.partition("_x")
    torch.manual_seed(0)
    found = vit_small() if model == vit_small.__name__ else networks.MODELS[model]()
    found = replace(found, finish=None)  # how many boxes are kept is no matter of bits
    found.module.eval()
    _settle(found)
    if batch:
        torch.manual_seed(1)
        size = int(batch)
        found = replace(found, inputs={n: _repeated(x, size) for n, x in found.inputs.items()})
    return found


def _repeated(x: Tensor, size: int) -> Tensor:
    return torch.randn(size, *x.shape[1:])


def _settle(found: Made) -> None:
    """Have normalisations know their inputs: without, numbers vanish from layer to layer, and what is left
    of them in few bits says nothing."""
    norms = [m for m in found.module.modules() if isinstance(m, nn.BatchNorm2d)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = None  # the mean of all calls
        norm.reset_running_stats()
        norm.train()
    with torch.no_grad():
        for _ in range(2):
            found.module(*(another(x) for x in found.inputs.values()))
    found.module.eval()


def export(folder: Path, name: str, forms: list[Form]) -> None:
    """Write what is missing."""
    files = Files(folder, name)
    found = made(name)
    if not files.of(Form.F32).exists():
        write(found, files.of(Form.F32))
        files.keep_inputs({n: x.numpy() for n, x in found.inputs.items()})
        torch.manual_seed(2)
        files.keep_batches(calls_of(found, BATCHES))
        files.keep_wanted(_exact(found))
        moved = sum(x.numel() * x.element_size() for x in found.inputs.values())
        files.keep_facts(Facts(flops_of(found), bytes_of(found) - moved, moved))
    for form in forms:
        if not files.of(form).exists():
            try:
                onnx.save(CHANGES[form](onnx.load(files.of(Form.F32)), files), files.of(form))
            except Exception as error:  # a quantiser that gives up costs the rows of its form
                files.failed(form, f"{type(error).__name__}: {error}"[:200])


def _exact(found: Made) -> list[np.ndarray]:
    """What the model gives in float64."""
    module = copy.deepcopy(found.module).double()
    with torch.no_grad():
        y = module(*(x.double() if x.is_floating_point() else x for x in found.inputs.values()))
    return [x.numpy() for x in (y if isinstance(y, tuple) else (y,))]


def _static(kind: QuantFormat, model: onnx.ModelProto, files: Files) -> onnx.ModelProto:
    """Weights and what is computed as bytes, by ranges of the batches."""

    def change(path: str) -> None:
        quantize_static(
            path, path, Calls(files.batches()), kind, activation_type=QuantType.QUInt8, per_channel=True
        )  # fmt: skip

    changed(model, change)
    return model


def _dynamic(model: onnx.ModelProto, files: Files) -> onnx.ModelProto:
    """Weights as bytes, and what they are multiplied with as it comes."""
    changed(model, lambda path: quantize_dynamic(path, path, weight_type=QuantType.QInt8))
    return model


CHANGES: dict[Form, Callable[[onnx.ModelProto, Files], onnx.ModelProto]] = {
    Form.BF16: lambda model, files: in_bfloat16(model),
    Form.QDQ: partial(_static, QuantFormat.QDQ),
    Form.QOPERATOR: partial(_static, QuantFormat.QOperator),
    Form.DYNAMIC: _dynamic,
}


def main(folder: str, name: str, *forms: str) -> None:
    """Write a model into a folder."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # the quantiser warns of each weight without channels
    export(Path(folder), name, [Form(f) for f in forms])


if __name__ == "__main__":
    main(*sys.argv[1:])
