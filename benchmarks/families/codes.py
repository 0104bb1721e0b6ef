"""Codes of narrow types: quantize, dequantize, dynamic scales."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import anyrt as trt
from benchmarks.families.case import Case, Family, Make, Node, Random, Shape, constant_of, normal, size
from benchmarks.values import Array

INT8, FP8, INT4 = (np.dtype(t) for t in (np.int8, ml_dtypes.float8_e4m3fn, ml_dtypes.int4))
FP4 = np.dtype(ml_dtypes.float4_e2m1fn)
OURS = {INT8: trt.int8, FP8: trt.fp8, INT4: trt.int4, FP4: trt.fp4}
LIMITS = {INT8: (-128, 127), FP8: (-448, 448), INT4: (-8, 7), FP4: (-6, 6)}
NAMES = {INT8: "i8", FP8: "fp8", INT4: "i4", FP4: "fp4"}
STEPS = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], np.float32)  # between magnitudes of fp4
BIG: Shape = (8, 512, 768)
SQUARE: Shape = (2048, 2048)


@dataclass(frozen=True, slots=True)
class Coding:
    """Numbers of a shape and type as codes of a narrow type, with scales per tensor, along an axis or per
    block of a row."""

    shape: Shape
    narrow: Any  # Any: a NumPy type
    axis: int | None = None
    block: int | None = None
    dtype: Any = np.float32  # Any: see above

    def scale(self) -> Array:
        """The scales; per block: (rows, blocks)."""
        random, shape = np.random.default_rng(3), self.shape
        along: Shape = () if self.axis is None else (shape[self.axis],)
        sizes = (shape[0], shape[1] // self.block) if self.block else along
        return np.asarray(np.exp2(random.integers(-7, -3, sizes)), self.dtype)

    def wide(self) -> Array:
        """The scales in a form that broadcasts in PyTorch."""
        scale = self.scale()
        if self.block or self.axis is None:
            return scale[..., None] if self.block else scale
        return scale.reshape([-1 if k == self.axis else 1 for k in range(len(self.shape))])

    def case(self, kind: str, make: Make, torch: Any, **functions: Any) -> Case:  # Any: see Case
        """The case of a node: of QuantizeLinear or DequantizeLinear."""
        grain = f"_axis{self.axis}" if self.axis is not None else f"_block{self.block}" if self.block else ""
        half = "_f16" if self.dtype is np.float16 else ""
        name = f"{kind.lower()}_{size(self.shape)}_{NAMES[self.narrow]}{grain}{half}"
        attributes: dict[str, int] = {} if self.axis is None else {"axis": self.axis}
        attributes |= {"axis": 1, "block_size": self.block} if self.block else {}
        scale = self.scale()
        node = Node(f"{kind}Linear", ("x", scale, np.zeros(scale.shape, self.narrow)), attributes)
        return Case(name, Family.CODE, {"x": make}, node, torch, **functions)


CODINGS = (
    Coding(BIG, INT8),
    Coding(BIG, INT8, axis=2),
    Coding((256, 64, 28, 28), INT8, axis=1),
    Coding(SQUARE, INT8, block=32),
    Coding(BIG, FP8),
    Coding(SQUARE, INT4, axis=0),
    Coding(SQUARE, INT4, block=32),
    Coding(BIG, INT8, dtype=np.float16),
)


def cases() -> Iterator[Case]:
    """Scales per tensor, per channel and per block; all narrow types; float16; dynamic scales per block and
    per row."""
    yield from map(_quantize, CODINGS)
    yield from map(_dequantize, CODINGS)
    for shape in (SQUARE, (4096, 4096), (11008, 4096)):
        yield _weights_of_four_bits(1, shape, 32)
    yield _weights_of_four_bits(16, (8192, 2048), 32)
    yield _dynamic((1024, 1024), INT8, 1024)
    yield _dynamic((1024, 1024), FP8, 32)
    yield _dynamic((1024, 1024), FP4, 16)


def _quantize(coding: Coding) -> Case:
    shape, narrow, axis, block = coding.shape, coding.narrow, coding.axis, coding.block
    scale, wide, (low, high) = coding.scale(), coding.wide(), LIMITS[narrow]

    def ours(network: Any, x: Any) -> Any:  # Any: tensors and layers
        layer = network.add_quantize(x, constant_of(network, scale), OURS[narrow])
        if axis is not None:
            layer.axis = axis
        return layer

    def torch(module: Any, x: Any) -> Any:  # Any: tensors
        if block:
            steps = (x.reshape(shape[0], -1, block) / module.from_numpy(wide)).reshape(shape)
        else:
            steps = x / module.from_numpy(wide)
        if narrow == FP8:
            return module.clamp(steps, low, high).to(module.float8_e4m3fn)
        codes = module.clamp(module.round(steps), low, high).to(module.int8)
        return codes if narrow == INT8 else _packed(codes)

    def library(module: Any, x: Any) -> Any:  # Any: tensors
        if axis is None:
            return module.quantize_per_tensor(x, float(scale), 0, module.qint8).int_repr()
        zeros = module.zeros(scale.shape, dtype=module.int64)
        return module.quantize_per_channel(x, module.from_numpy(scale), zeros, axis, module.qint8).int_repr()

    is_plain = narrow == INT8 and coding.dtype is np.float32 and not block
    make = normal(*shape, dtype=coding.dtype)
    return coding.case("Quantize", make, torch, ours=ours, eagerly=library if is_plain else None)


def _packed(codes: Any) -> Any:  # Any: a tensor of int8
    """Two 4-bit codes in each byte."""
    return (codes[..., ::2] & 15) | (codes[..., 1::2] << 4)


def _dequantize(coding: Coding) -> Case:
    shape, narrow, block, wide = coding.shape, coding.narrow, coding.block, coding.wide()
    low, high = (int(np.clip(x, -128, 127)) for x in LIMITS[narrow])

    def make(random: Random) -> Array:
        return random.integers(low, high, shape, endpoint=True).astype(np.int8).astype(narrow)

    def torch(module: Any, x: Any) -> Any:  # Any: tensors
        scales = module.from_numpy(wide)
        if narrow == INT4:
            x = module.stack([(x << 4) >> 4, x >> 4], -1).reshape(shape)
        numbers = x.to(scales.dtype)
        if block:
            return (numbers.reshape(shape[0], -1, block) * scales).reshape(shape)
        return numbers * scales

    return coding.case("Dequantize", make, torch)


def _weights_of_four_bits(rows: int, shape: Shape, block: int) -> Case:
    """Rows times the transpose of weights in blocks; `shape`: results and terms of a row. The weights are
    large, so they are created at first use."""
    results, terms = shape

    @cache
    def parts() -> tuple[Array, Array]:
        random = np.random.default_rng(4)
        scale = random.uniform(0.01, 0.1, (results, terms // block)).astype(np.float32)
        return random.integers(0, 16, shape).astype(np.uint8), scale

    @cache
    def wide() -> Array:
        codes, scale = parts()
        return ((codes.astype(np.float32) - 8) * np.repeat(scale, block, 1)).T

    def packed() -> Array:
        return _packed(parts()[0]).reshape(results, terms // block, block // 2)

    sizes = {"K": terms, "N": results, "bits": 4, "block_size": block, "domain": "com.microsoft"}
    return Case(
        f"product_{rows}x{terms}x{results}_i4_block{block}",
        Family.CODE,
        {"x": normal(rows, terms)},
        Node("MatMulNBits", ("x", packed, lambda: parts()[1].reshape(-1)), sizes),
        lambda module, x: x @ module.from_numpy(wide()),
        lambda x: (x.astype(np.float64) @ wide()).astype(np.float32),
        read=results * terms // 2 + 4 * (results * terms // block + rows * terms),
    )


def _dynamic(shape: Shape, narrow: Any, block: int) -> Case:
    """Scales in float32 (of whole rows), as powers of two (MXFP8) or in fp8 (NVFP4)."""
    largest = float(LIMITS[narrow][1])
    kind = {INT8: trt.float32, FP8: trt.e8m0, FP4: trt.fp8}[narrow]
    kept = {INT8: np.float32, FP8: ml_dtypes.float8_e8m0fnu, FP4: ml_dtypes.float8_e4m3fn}[narrow]

    def exact(x: Array) -> tuple[Array, ...]:
        parts = x.reshape(shape[0], -1, block)
        scale = np.abs(parts).max(-1, keepdims=True) / np.float32(largest)
        scale = np.exp2(np.ceil(np.log2(scale))) if narrow == FP8 else scale.astype(kept).astype(np.float32)
        steps = (parts / scale).reshape(shape)
        codes = np.rint(steps) if narrow == INT8 else steps
        return codes.astype(narrow), scale[..., 0].astype(kept)

    def ours(network: Any, x: Any) -> Any:  # Any: tensors and layers
        return network.add_dynamic_quantize(x, 1, block, OURS[narrow], kind)

    def torch(module: Any, x: Any) -> Any:  # Any: tensors
        parts = x.reshape(shape[0], -1, block)
        scale = parts.abs().amax(-1, keepdim=True) / largest
        if narrow == FP8:
            scale = module.exp2(module.ceil(module.log2(scale)))
            held = ((scale.view(module.int32) >> 23) & 255).to(module.uint8)
        else:
            held = scale if narrow == INT8 else scale.to(module.float8_e4m3fn)
            scale = held.to(module.float32)
        steps = (parts / scale).reshape(shape)
        if narrow == INT8:
            return module.round(steps).to(module.int8), held[..., 0]
        if narrow == FP8:
            return steps.to(module.float8_e4m3fn), held[..., 0]
        code = module.bucketize(steps.abs(), module.from_numpy(STEPS)).to(module.int8)
        code = code | ((steps < 0).to(module.int8) << 3)
        return _packed(code), held[..., 0]

    return Case(
        f"dynamic_{size(shape)}_{NAMES[narrow]}_block{block}",
        Family.CODE,
        {"x": normal(*shape)},
        None,
        torch,
        exact,
        ours,
    )
