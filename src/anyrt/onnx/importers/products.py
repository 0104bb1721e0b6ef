"""Products of matrices."""

from __future__ import annotations

from anyrt.api.compose.tensor import Tensor
from anyrt.onnx.node import Node, importer


@importer("MatMul")
def matmul(node: Node) -> Tensor:
    """NumPy's matmul."""
    return node.matmul(node.input(0), node.input(1))


def general_product(node: Node) -> Tensor:
    """alpha · A · B + beta · C."""
    y = node.matmul(node.input(0), node.input(1), bool(node.attr("transA", 0)), bool(node.attr("transB", 0)))
    alpha, beta, c = node.attr("alpha", 1.0), node.attr("beta", 1.0), node.optional(2)
    y = y if alpha == 1 else y * alpha
    if c is None or beta == 0:
        return y
    return y + (c if beta == 1 else c * beta)


importer("Gemm")(general_product)
