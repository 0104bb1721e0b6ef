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
from torch import nn

from benchmarks.bits.files import Facts, Files, Form
from benchmarks.bits.narrow import in_bfloat16
from benchmarks.models import networks

BATCHES = 2  # that ranges are learnt of


def vit_small() -> networks.Network:
    """With 22 million weights."""
    return networks.Network(networks.ViT(384, 6), {"x": torch.randn(networks.PHOTO)})


def network_of(name: str) -> networks.Network:
    """A model with fixed weights. NAME_xN: with a batch of N images."""
    model, _, batch = name.partition("_x")
    torch.manual_seed(0)
    network = vit_small() if model == vit_small.__name__ else networks.MODELS[model]()
    network = replace(network, finish=None)  # how many boxes are kept is no matter of bits
    network.module.eval()
    _settle(network)
    if batch:
        torch.manual_seed(1)
        inputs = {n: torch.randn(int(batch), *x.shape[1:]) for n, x in network.inputs.items()}
        network = replace(network, inputs=inputs)
    return network


def _settle(network: networks.Network) -> None:
    """Set the statistics of batch normalisations to those of the inputs. With default statistics, the numbers
    vanish from layer to layer, and errors in few bits mean nothing."""
    norms = [m for m in network.module.modules() if isinstance(m, nn.BatchNorm2d)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = None  # the mean of all calls
        norm.reset_running_stats()
        norm.train()
    with torch.no_grad():
        for _ in range(2):
            network.module(*(networks.another(x) for x in network.inputs.values()))
    network.module.eval()


def export(folder: Path, name: str, forms: list[Form]) -> None:
    """Write the files that do not exist yet."""
    files = Files(folder, name)
    network = network_of(name)
    if not files.of(Form.F32).exists():
        networks.write(network, files.of(Form.F32))
        files.keep_inputs({n: x.numpy() for n, x in network.inputs.items()})
        torch.manual_seed(2)
        files.keep_batches(networks.calls_of(network, BATCHES))
        files.keep_expected(_exact(network))
        moved = sum(x.numel() * x.element_size() for x in network.inputs.values())
        files.keep_facts(Facts(networks.flops_of(network), networks.bytes_of(network) - moved, moved))
    for form in forms:
        if not files.of(form).exists():
            try:
                onnx.save(CHANGES[form](onnx.load(files.of(Form.F32)), files), files.of(form))
            except Exception as error:  # a failing quantizer loses only the rows of its form
                files.failed(form, f"{type(error).__name__}: {error}"[:200])


def _exact(network: networks.Network) -> list[np.ndarray]:
    """The outputs of the model in float64."""
    module = copy.deepcopy(network.module).double()
    with torch.no_grad():
        y = module(*(x.double() if x.is_floating_point() else x for x in network.inputs.values()))
    return [x.numpy() for x in (y if isinstance(y, tuple) else (y,))]


def _static(kind: QuantFormat, model: onnx.ModelProto, files: Files) -> onnx.ModelProto:
    """The model with weights and activations in int8, with ranges from the batches."""

    def change(path: str) -> None:
        calls = networks.Calls(files.batches())
        quantize_static(path, path, calls, kind, activation_type=QuantType.QUInt8, per_channel=True)

    networks.changed(model, change)
    return model


def _dynamic(model: onnx.ModelProto, files: Files) -> onnx.ModelProto:
    """The model with weights in int8 and activations that are quantized at run time."""
    networks.changed(model, lambda path: quantize_dynamic(path, path, weight_type=QuantType.QInt8))
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
