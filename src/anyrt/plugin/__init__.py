"""Plug-ins made from functions, like `tensorrt.plugin`: a description of the outputs, and an implementation.

    import anyrt.plugin as trtp

    @trtp.register("my::scaled")
    def scaled(x: trtp.TensorDesc, factor: float) -> trtp.TensorDesc:
        return x.like()

    @trtp.impl("my::scaled")
    def scaled_impl(x: trtp.Tensor, factor: float, outputs: Tuple[trtp.Tensor], stream: int) -> None:
        np.multiply(np.asarray(x), factor, out=np.asarray(outputs[0]))

    layer = network.add_plugin(trtp.op.my.scaled(x, factor=2.0))

Tensors are in host memory: NumPy and PyTorch use the arguments of `impl` without a copy. See
docs/plugin_functions.md.
"""

from anyrt.api.plugins.functions.combination import AutoTuneCombination
from anyrt.api.plugins.functions.define import aot_impl, autotune, impl, op, register
from anyrt.api.plugins.functions.desc import SizeTensorDesc, TensorDesc, from_shape_expr, size_tensor
from anyrt.api.plugins.functions.launch import KernelLaunchParams
from anyrt.api.plugins.functions.lists import ShapeExprs, SymExprs, SymIntExprs
from anyrt.api.plugins.functions.shape import Shape
from anyrt.api.plugins.functions.sizes import (
    ShapeExpr,
    SizeTensorShapeExpr,
    SymInt8,
    SymInt16,
    SymInt32,
    cdiv,
    max,
    min,
)
from anyrt.api.plugins.functions.tensor import Tensor

__all__ = [
    "AutoTuneCombination",
    "KernelLaunchParams",
    "Shape",
    "ShapeExpr",
    "ShapeExprs",
    "SizeTensorDesc",
    "SizeTensorShapeExpr",
    "SymExprs",
    "SymInt8",
    "SymInt16",
    "SymInt32",
    "SymIntExprs",
    "Tensor",
    "TensorDesc",
    "aot_impl",
    "autotune",
    "cdiv",
    "from_shape_expr",
    "impl",
    "max",
    "min",
    "op",
    "register",
    "size_tensor",
]
