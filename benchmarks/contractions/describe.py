"""A case in the language of calls, and its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from benchmarks.contractions import forms, networks
from benchmarks.contractions.calls import Act, Calls, Numbers
from benchmarks.contractions.forms import Case
from benchmarks.steps import Element
from benchmarks.values import Array, input_values

T = TypeVar("T")
CODE = 1 / 64  # the scale of int8 tensors and weights
SPREAD = 73.0  # the root mean square of codes


def values_of(case: Case) -> dict[str, Array]:
    """All inputs, each in its own memory; queries are small enough for scores of about 1."""
    out = {}
    for seed, (name, tensor) in enumerate(forms.inputs(case).items()):
        most = 2.0
        if name == "q":
            most = 2.0 * tensor.shape[-1] ** -0.5
        out[name] = input_values(tensor, -most, most, seed + 7)
    return out


def out_scale(case: Case) -> float:
    """The scale of an int8 result: its root mean square is 40 codes."""
    assert isinstance(case.form, forms.Product | forms.Convolution), f"{case.name}: no int8 form"
    return float(SPREAD * CODE * SPREAD * CODE * terms(case.form) ** 0.5 / 40)


def terms(form: forms.Product | forms.Convolution) -> int:
    """The number of products in each sum."""
    if isinstance(form, forms.Product):
        return form.k
    return int(form.c_in // form.window.groups * np.prod(form.window.kernel))


def describe(case: Case, calls: Calls[T], tensors: Mapping[str, T]) -> T:
    """The result of the case."""
    numbers = Numbers(Element.F32 if case.dtype is Element.I8 else case.dtype)
    match case.form:
        case forms.Product() as form:
            return _tail(case, calls, tensors, _product(case, form, calls, tensors, numbers), numbers)
        case forms.Convolution() as form:
            return _tail(case, calls, tensors, _convolution(case, form, calls, tensors, numbers), numbers)
        case forms.Attention(mask=mask):
            return calls.attention(tensors["q"], tensors["k"], tensors["v"], mask, tensors.get("m"))
        case forms.Pool(fold=fold, window=window):
            return calls.pool(tensors["x"], fold, window)
        case forms.Softmax():
            return calls.softmax(tensors["x"])
        case forms.Whole(network=name):
            y: T = networks.NETWORKS[name](calls, tensors["x"], numbers)
            return y


def _product(
    case: Case, form: forms.Product, calls: Calls[T], tensors: Mapping[str, T], numbers: Numbers
) -> T:
    x = tensors["x"]
    if case.dtype is Element.I8:
        codes = numbers.codes((form.k, form.n), CODE)
        return calls.product(calls.dequantize(x, CODE), calls.constant(codes))
    if not form.constant:
        return calls.product(x, tensors["w"])
    return calls.product(x, calls.constant(numbers.weights((form.k, form.n), form.k)))


def _convolution(
    case: Case, form: forms.Convolution, calls: Calls[T], tensors: Mapping[str, T], numbers: Numbers
) -> T:
    x, call = tensors["x"], calls.convolution
    if case.dtype is Element.I8:
        return call(calls.dequantize(x, CODE), numbers.codes(form.kernel, CODE), None, form.window)
    kernel = numbers.weights(form.kernel, terms(form))
    bias = numbers.weights((form.c_out,), 1) if forms.Tail.BIAS in case.tail else None
    return call(x, kernel, bias, form.window)


def _tail(case: Case, calls: Calls[T], tensors: Mapping[str, T], y: T, numbers: Numbers) -> T:
    for tail in case.tail:
        match tail:
            case forms.Tail.BIAS if isinstance(case.form, forms.Product):
                y = calls.add(y, calls.constant(numbers.weights((case.form.n,), 1)))
            case forms.Tail.BIAS:
                pass  # with the convolution
            case forms.Tail.RESIDUAL:
                y = calls.add(y, tensors["r"])
            case forms.Tail.RELU | forms.Tail.GELU:
                y = calls.act(y, Act[tail.name])
    return calls.quantize(y, out_scale(case)) if case.dtype is Element.I8 else y
