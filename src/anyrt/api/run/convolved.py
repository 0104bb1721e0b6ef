"""The inspector's information on a kernel that computes a convolution, with the keys of TensorRT for tools.

>>> details = dict(num_output_maps="8", kernel_size_nd="(1, 1)", num_groups="1", stride_nd="(2, 2)")
>>> layer = LayerRecord("conv", "Convolution", ("x",), ("y",), tuple(details.items()))
>>> facts = convolution([layer], [[2, 3, 6, 6]], [[2, 8, 3, 3]])
>>> facts["ParameterType"], facts["Kernel"], facts["OutMaps"]
('Convolution', [1, 1], 8)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from anyrt.plan.plan import LayerRecord

Shown: TypeAlias = "str | int | Sequence[Shown] | Mapping[str, Shown]"
Sizes: TypeAlias = "Sequence[int]"
# Attributes with a number for each spatial axis, and their default numbers.
LISTS: Final = {
    "PrePadding": ("pre_padding", 0),
    "PostPadding": ("post_padding", 0),
    "Stride": ("stride_nd", 1),
    "Dilation": ("dilation_nd", 1),
}


def convolution(
    layers: Sequence[LayerRecord], inputs: Sequence[Sizes], outputs: Sequence[Sizes]
) -> dict[str, Shown]:
    """The information on the first layer with these input and output sizes. Empty if there is none: a kernel
    may compute a part of a convolution, such as its border or tiles."""
    for layer in layers:
        if layer.kind != "Convolution" or not inputs or not outputs:
            continue
        details = dict(layer.details)
        lists = {"Kernel": (kernel := _numbers(details["kernel_size_nd"]))}
        for key, (name, default) in LISTS.items():
            lists[key] = _numbers(details.get(name, "")) or [default] * len(kernel)
        maps, groups = int(details["num_output_maps"]), int(details.get("num_groups", "1"))
        rank = len(kernel) + 2
        if len(inputs[0]) != rank or len(outputs[0]) != rank or outputs[0][1] != maps:
            continue
        mode = details.get("padding_mode", "EXPLICIT_ROUND_DOWN").rpartition(".")[2]
        counts: dict[str, Shown] = {"OutMaps": maps, "Groups": groups, "HasBias": int("bias" in details)}
        return {"ParameterType": "Convolution", "PaddingMode": f"k{mode}", **lists, **counts}
    return {}


def without_groups(layers: Sequence[LayerRecord], sizes: list[int]) -> list[int]:
    """The sizes of a tensor: (N, groups, channels per group, …) as (N, C, …)."""
    for layer in layers:
        details = dict(layer.details)
        if layer.kind == "Convolution" and len(sizes) == len(_numbers(details["kernel_size_nd"])) + 3:
            groups, maps = int(details.get("num_groups", "1")), int(details["num_output_maps"])
            if groups > 1 and sizes[1] == groups and sizes[1] * sizes[2] == maps:
                return [sizes[0], maps, *sizes[3:]]
    return sizes


def _numbers(text: str) -> list[int]:
    """The numbers in a text such as "(3, 3)"."""
    return [int(n) for n in re.findall(r"-?\d+", text)]
