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
from pathlib import Path

import numpy as np
import onnx
import torch
from onnxruntime.quantization import QuantFormat
from torch import nn

from benchmarks.bits.files import Facts, Files, Form
from benchmarks.bits.narrow import narrow_to_bfloat16
from benchmarks.models import networks

BATCHES = 2  # that ranges are learnt of
MODELS = networks.MODELS | {  # and one of 22 million weights
    "vit_small": lambda: networks.Network(networks.ViT(384, 6), {"x": torch.randn(networks.PHOTO)})
}


def network_of(name: str) -> networks.Network:
    """A model with fixed weights. NAME_xN: with a batch of N images."""
    model, _, batch = name.partition("_x")
    torch.manual_seed(0)
    network = replace(MODELS[model](), finish=None)  # how many boxes are kept is no matter of bits
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
        files.keep("inputs", {n: x.numpy() for n, x in network.inputs.items()})
        torch.manual_seed(2)
        for i, batch in enumerate(networks.calls_of(network, BATCHES)):
            files.keep(f"batch{i}", batch)
        files.keep_expected(_exact(network))
        moved = sum(x.numel() * x.element_size() for x in network.inputs.values())
        files.keep_facts(Facts(networks.flops_of(network), networks.bytes_of(network) - moved, moved))
    for form in forms:
        if not files.of(form).exists():
            try:
                model = onnx.load(files.of(Form.F32))
                CHANGES[form](model, files)
                onnx.save(model, files.of(form))
            except Exception as error:  # a failing quantizer loses only the rows of its form
                files.failed(form, f"{type(error).__name__}: {error}"[:200])


def _exact(network: networks.Network) -> list[np.ndarray]:
    """The outputs of the model in float64."""
    module = copy.deepcopy(network.module).double()
    with torch.no_grad():
        y = module(*(x.double() if x.is_floating_point() else x for x in network.inputs.values()))
    return [x.numpy() for x in (y if isinstance(y, tuple) else (y,))]


CHANGES: dict[Form, Callable[[onnx.ModelProto, Files], None]] = {
    Form.BF16: lambda model, files: narrow_to_bfloat16(model),
    Form.QDQ: lambda model, files: networks.static_int8(model, files.batches(), QuantFormat.QDQ),
    Form.QOPERATOR: lambda model, files: networks.static_int8(model, files.batches(), QuantFormat.QOperator),
    Form.DYNAMIC: lambda model, files: networks.dynamic_int8(model),
}


def main(folder: str, name: str, *forms: str) -> None:
    """Write a model into a folder."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # the quantiser warns of each weight without channels
    export(Path(folder), name, [Form(f) for f in forms])


if __name__ == "__main__":
    main(*sys.argv[1:])
