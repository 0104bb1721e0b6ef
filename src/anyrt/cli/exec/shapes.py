"""Shapes and formats on command lines.

>>> shapes([("x", "1x3x224x224"), ("n", "")], "--shapes")
{'x': (1, 3, 224, 224), 'n': ()}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrt.api.building.config import IBuilderConfig
from anyrt.api.building.profile import IOptimizationProfile
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.tensor import ITensor
from anyrt.cli.exec.flags import Given
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import ArgumentError, ProfileError

Shapes = dict[str, tuple[int, ...]]
TYPES = {
    "fp32": DataType.FLOAT,
    "fp16": DataType.HALF,
    "bf16": DataType.BF16,
    "int32": DataType.INT32,
    "int64": DataType.INT64,
    "int8": DataType.INT8,
    "uint8": DataType.UINT8,
    "bool": DataType.BOOL,
    "fp8": DataType.FP8,
    "int4": DataType.INT4,
}


def shapes(pairs: Sequence[tuple[str, str]], option: str) -> Shapes:
    """The shapes of an option; "scalar" and "" mean rank 0."""
    out: Shapes = {}
    for name, text in pairs:
        try:
            out[name] = tuple(int(d) for d in text.replace("scalar", "").split("x") if d)
        except ValueError:
            raise ArgumentError(
                "AR304", option, f"{name}:{text}", "sizes separated by x", "write NAME:1x3x224x224"
            ) from None
    return out


def add_profile(options: Given, network: INetworkDefinition, config: IBuilderConfig) -> None:
    """Add the profiles of --minShapes, --optShapes and --maxShapes, or else of --shapes. A dynamic dimension
    without a value is 1."""
    profiles = [options.profiles[n] for n in sorted(options.profiles)]
    if profiles and sorted(options.profiles) != [*range(len(profiles))]:
        got = ", ".join(map(str, sorted(options.profiles)))
        raise ArgumentError(
            "AR304", "--profile", got, "consecutive indices from 0", "number the profiles 0, 1, 2"
        )
    for more in profiles or [{}]:
        each = replace(options, values=options.values | more)
        config.add_optimization_profile(profile_of(each, network, "Shapes"))


def profile_of(options: Given, network: INetworkDefinition, ending: str) -> IOptimizationProfile:
    """The profile of the options min…, opt… and max… with this ending."""
    limits = {w: shapes(options.pairs(f"{w}{ending}"), f"--{w}{ending}") for w in ("min", "opt", "max")}
    run = shapes(options.pairs("shapes"), "--shapes")
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    for name in {n for part in (*limits.values(), run) for n in part} - {t.name for t in inputs}:
        known = ", ".join(t.name for t in inputs)
        raise ProfileError("AR506", name, "a shape for an unknown input", f"one of {known}")
    profile = IOptimizationProfile()
    for tensor in inputs:
        low, best, high = (_shape(tensor, limits, run, w) for w in ("min", "opt", "max"))
        if tensor.is_shape_tensor:
            profile.set_shape_input(tensor.name, low, best, high)
        elif -1 in tuple(tensor.shape):
            profile.set_shape(tensor.name, low, best, high)
    return profile


def _shape(tensor: ITensor, limits: dict[str, Shapes], run: Shapes, which: str) -> tuple[int, ...]:
    for word in (which, "opt", "max", "min"):
        if tensor.name in limits[word]:
            return limits[word][tensor.name]
    return run.get(tensor.name, default_shape(tensor))


def default_shape(tensor: ITensor) -> tuple[int, ...]:
    """The shape with 1 for dynamic dimensions; for a shape tensor, values of 1."""
    sizes = tuple(tensor.shape)
    if tensor.is_shape_tensor:
        return (1,) * (sizes[0] if sizes else 1)
    return tuple(1 if d < 0 else d for d in sizes)


def set_formats(options: Given, network: INetworkDefinition) -> None:
    """Set the types and formats of --inputIOFormats and --outputIOFormats."""
    sides = (
        ("inputIOFormats", [network.get_input(i) for i in range(network.num_inputs)]),
        ("outputIOFormats", [network.get_output(i) for i in range(network.num_outputs)]),
    )
    for option, tensors in sides:
        words = [w for w in options.text(option).split(",") if w]
        if words and len(words) not in (1, len(tensors)):
            wanted = f"1 format, or {len(tensors)} formats: one per tensor"
            raise ArgumentError("AR304", f"--{option}", f"{len(words)} formats", wanted)
        for tensor, word in zip(tensors, words * len(tensors) if len(words) == 1 else words, strict=False):
            _set(option, tensor, word)


def _set(option: str, tensor: ITensor, word: str) -> None:
    kind, _, formats = word.partition(":")
    known = {"chw": "LINEAR", **{f.name.lower(): f.name for f in TensorFormat}}
    if kind not in TYPES or any(f not in known for f in formats.split("+") if f):
        raise ArgumentError(
            "AR304", f"--{option}", repr(word), f"TYPE:FORMAT with a type of {', '.join(TYPES)}"
        )
    if tensor.dtype is not TYPES[kind]:
        tensor.dtype = TYPES[kind]
    tensor.allowed_formats = sum({1 << int(TensorFormat[known[f]]) for f in formats.split("+") if f} or {1})
