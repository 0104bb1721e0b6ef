"""Plug-ins made from functions, as in TensorRT's samples."""

from enum import IntEnum
from typing import List, Tuple  # noqa: UP035  # as programs write it

import numpy as np
import numpy.typing as npt

import anyrt as trt
import anyrt.plugin as trtp


@trtp.register("sample::elemwise_add", lazy_register=True)
def add_desc(inp0: trtp.TensorDesc, block_size: int) -> trtp.TensorDesc:
    return inp0.like()


@trtp.impl("sample::elemwise_add")
def add_impl(
    inp0: trtp.Tensor,
    block_size: int,
    outputs: tuple[trtp.Tensor],
    stream: int,
) -> None:
    assert block_size == 256
    np.add(np.asarray(inp0), 1, out=np.asarray(outputs[0]))


@trtp.register("sample::elemwise_add_", lazy_register=True)
def add_in_place_desc(inp0: trtp.TensorDesc, delta: int) -> trtp.TensorDesc:
    return inp0.aliased()


@trtp.autotune("sample::elemwise_add_")
def add_in_place_autotune(inp0, outputs) -> List[trtp.AutoTuneCombination]:  # noqa: UP006
    return [
        trtp.AutoTuneCombination("FP32, FP32", "LINEAR*HWC"),
        trtp.AutoTuneCombination("FP32|FP16, FP32|FP16", "LINEAR"),
    ]


@trtp.impl("sample::elemwise_add_")
def add_in_place_impl(inp0, delta: int, outputs, stream) -> None:
    memory = np.asarray(inp0)
    memory += delta


@trtp.register("sample::non_zero", lazy_register=True)
def non_zero_desc(inp0: trtp.TensorDesc) -> Tuple[trtp.TensorDesc, trtp.TensorDesc]:  # noqa: UP006
    upper_bound = inp0.shape_expr[0] * inp0.shape_expr[1]
    size = trtp.size_tensor(upper_bound // 2, upper_bound)
    return trtp.from_shape_expr((size.expr(), 2), dtype=trt.int32), size


@trtp.autotune("sample::non_zero")
def non_zero_autotune(inp0, outputs) -> List[trtp.AutoTuneCombination]:  # noqa: UP006
    return [trtp.AutoTuneCombination("FP32|FP16, INT32, INT32")]


@trtp.impl("sample::non_zero")
def non_zero_impl(inp0, outputs, stream) -> None:
    result = np.argwhere(np.asarray(inp0))
    np.asarray(outputs[0].aliased(result.shape))[:] = result
    np.asarray(outputs[1])[...] = len(result)


@trtp.register("sample::circ_pad", lazy_register=True)
def circ_pad_desc(inp0: trtp.TensorDesc, pads: npt.NDArray[np.int32]) -> trtp.TensorDesc:
    ndim = inp0.ndim
    out_desc = inp0.like()
    for i in range(np.size(pads) // 2):
        out_desc.shape_expr[ndim - i - 1] += int(pads[i * 2] + pads[i * 2 + 1])
    return out_desc


class Tactic(IntEnum):
    NUMPY = 1
    TAKE = 2


SEEN = []  # the tactics that were called


@trtp.autotune("sample::circ_pad")
def circ_pad_autotune(
    inp0: trtp.TensorDesc,
    outputs: Tuple[trtp.TensorDesc],  # noqa: UP006
) -> List[trtp.AutoTuneCombination]:  # noqa: UP006
    c = trtp.AutoTuneCombination()
    c.pos([0, 1], "FP32|FP16")
    c.tactics([int(Tactic.NUMPY), int(Tactic.TAKE)])
    return [c]


@trtp.impl("sample::circ_pad")
def circ_pad_impl(
    inp0: trtp.Tensor,
    pads: npt.NDArray[np.int32],
    outputs: Tuple[trtp.Tensor],  # noqa: UP006
    stream: int,
    tactic: int,
) -> None:
    SEEN.append(tactic)
    x, y = np.asarray(inp0), np.asarray(outputs[0])
    if tactic == Tactic.NUMPY:
        widths = [(0, 0)] * (x.ndim - len(pads) // 2) + pads.reshape(-1, 2)[::-1].tolist()
        y[:] = np.pad(x, widths, "wrap")
    elif tactic == Tactic.TAKE:
        out_dims = trtp.Shape(tuple(inp0.shape))
        for i in range(np.size(pads) // 2):
            out_dims[inp0.ndim - i - 1] += pads[i * 2] + pads[i * 2 + 1]
        assert out_dims.numel() == outputs[0].numel()
        for i in range(np.size(pads) // 2):
            axis = inp0.ndim - i - 1
            x = x.take(np.arange(-pads[i * 2], inp0.shape[axis] + pads[i * 2 + 1]), axis, mode="wrap")
        y[:] = x
