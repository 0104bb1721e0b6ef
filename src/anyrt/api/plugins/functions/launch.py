"""Launch parameters of a kernel that is compiled when its engine is built."""

from __future__ import annotations

from anyrt.api.edge.oneline import one_line
from anyrt.api.plugins.exprs import LAUNCH, IDimensionExpr, LaunchParameters
from anyrt.api.plugins.functions.sizes import SymInt32, SymIntExpr, text


class KernelLaunchParams(LaunchParameters):
    """Launch parameters of a kernel: blocks, threads per block, and bytes of shared memory.

    >>> from anyrt.api.plugins.functions.sizes import ShapeExpr, cdiv
    >>> launch = KernelLaunchParams(block_x=256)
    >>> launch.grid_x = cdiv(ShapeExpr(1000), 256)
    >>> launch
    <KernelLaunchParams: grid 4 1 1, block 256 1 1>
    """

    __slots__ = ("__weakref__",)

    def __init__(
        self,
        grid_x: int | IDimensionExpr | SymIntExpr = 1,
        grid_y: int | IDimensionExpr | SymIntExpr = 1,
        grid_z: int | IDimensionExpr | SymIntExpr = 1,
        block_x: int | IDimensionExpr | SymIntExpr = 1,
        block_y: int | IDimensionExpr | SymIntExpr = 1,
        block_z: int | IDimensionExpr | SymIntExpr = 1,
        shared_mem: int | IDimensionExpr | SymIntExpr = 0,
    ) -> None:
        arguments = (grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_mem)
        self._values = {name: SymInt32(x) for name, x in zip(LAUNCH, arguments, strict=True)}

    def _stored(self, name: str, value: int | IDimensionExpr | SymIntExpr) -> SymInt32:
        return SymInt32(value)

    @one_line
    def __repr__(self) -> str:
        grid, block = (" ".join(text(self._values[n]) for n in LAUNCH[k : k + 3]) for k in (0, 3))
        return f": grid {grid}, block {block}"
