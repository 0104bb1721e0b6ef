"""`torch.autocast("cuda")` over host memory: operators cast their arguments as they do on a GPU.

Every build of PyTorch has these casts, for CUDA tensors only, under the dispatch key AutocastCUDA. Python
functions replace them, and the key is active while the autocast of "cuda" is enabled. Operators that PyTorch
casts and that are not listed below compute in float32.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, Final

# Any: PyTorch's operators, their arguments and results.

_KEY: Final = "AutocastCUDA"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LOWER: Final = _names(
    "_convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d"
    " conv_transpose2d.input conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv"
    " linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell"
    " rnn_relu_cell scaled_dot_product_attention _scaled_dot_product_flash_attention _thnn_fused_lstm_cell"
    " _thnn_fused_gru_cell cudnn_convolution cudnn_convolution_transpose"
)
# On a GPU these are functions of cuDNN, which do their own casts.
_RECURRENT: Final = tuple(
    f"{n}.{k}" for n in ("lstm", "gru", "rnn_tanh", "rnn_relu") for k in ("input", "data")
)
_WIDEST: Final = _names(
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"
)
# They have an argument for the type of the result, which has priority over the types of the operands.
_TYPED: Final = _names(
    "prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm"
    " linalg_matrix_norm.str_ord sum sum.dim_IntList"
)
_REFUSED: Final = "binary_cross_entropy"


def offer(torch: ModuleType) -> None:
    """Register the casts of `torch.autocast("cuda")`."""
    torch.cuda.amp.common.amp_definitely_not_available = _never(torch.cuda.amp.common)
    switch = torch.set_autocast_enabled
    include = torch._C._dispatch_tls_set_dispatch_key_included

    @functools.wraps(switch)
    def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
        switch(*args, **kwargs)
        is_on = torch.is_autocast_enabled("cuda")
        if is_on:
            _register(torch)
        include(_KEY, is_on)

    setattr(torch, "set_autocast_enabled", set_autocast_enabled)  # noqa: B010  # mypy knows no such name


def _never(common: ModuleType) -> Callable[[], bool]:
    @functools.wraps(common.amp_definitely_not_available)
    def amp_definitely_not_available() -> bool:
        return False

    return amp_definitely_not_available


@functools.cache
def _register(torch: ModuleType) -> Any:
    """Register a casting function for each operator whose arguments PyTorch casts."""
    names = {name.removeprefix("aten::") for name in _known(torch) if name.startswith("aten::")}
    library = torch.library.Library("aten", "IMPL", _KEY)
    for name in sorted(names.union(_RECURRENT)):
        operator, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, operator, None)
        call = getattr(packet, overload or "default", None)
        if call is not None:
            with warnings.catch_warnings(
                action="ignore"
            ):  # about replacing the functions for CUDA, which nothing calls here
                library.impl(name, _caster(torch, name, call))
    return library


def _known(torch: ModuleType) -> list[str]:
    names: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key(_KEY)
    return names


def _caster(torch: ModuleType, name: str, call: Any) -> Callable[..., Any]:
    """A function that casts its arguments and calls `call`, inside which no further casts happen."""
    key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _KEY))
    names = [argument.name for argument in call._schema.arguments]
    typed = names.index("dtype") if name in _TYPED else None

    def cast(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(key):
            if typed is None:
                dtype = _computed_type(torch, name, (*args, *kwargs.values()))
                return call(*_as(torch, dtype, args), **_as(torch, dtype, kwargs))
            if _is_cast(torch, args[0]) and len(args) <= typed and kwargs.get("dtype") is None:
                kwargs["dtype"] = torch.float32
            return call(*args, **kwargs)

    return cast


def _computed_type(torch: ModuleType, name: str, values: Iterable[Any]) -> Any:
    """The type that an operator computes in."""
    lower = torch.get_autocast_dtype("cuda")
    if name in _LOWER or name in _RECURRENT:
        return lower
    if name == _REFUSED:
        do = f"take {_REFUSED}_with_logits"
        raise RuntimeError(f"{_REFUSED} may overflow in {lower} under autocast('cuda'): {do}")
    types = {x.dtype for x in _tensors(torch, values)}
    return lower if name in _WIDEST and torch.float32 not in types else torch.float32


def _tensors(torch: ModuleType, values: Iterable[Any]) -> Iterator[Any]:
    for x in values:
        if isinstance(x, list | tuple):
            yield from _tensors(torch, x)
        elif _is_cast(torch, x):
            yield x


def _is_cast(torch: ModuleType, x: Any) -> bool:
    """Whether autocast casts a value: a floating-point tensor, except float64."""
    if not isinstance(x, torch.Tensor) or x.device.type != "cpu":
        return False
    return x.is_floating_point() and x.dtype is not torch.float64


def _as(torch: ModuleType, dtype: Any, value: Any) -> Any:
    """`value` with all such tensors cast to `dtype`."""
    if isinstance(value, dict):
        return {name: _as(torch, dtype, x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_as(torch, dtype, x) for x in value)
    return value.to(dtype) if _is_cast(torch, value) else value
