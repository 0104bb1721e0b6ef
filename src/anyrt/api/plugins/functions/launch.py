"""Launch parameters of a kernel that is compiled when its engine is built."""

from __future__ import annotations

from typing import Final

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.oneline import one_line
from anyrt.api.plugins.exprs import IDimensionExpr
from anyrt.api.plugins.functions.sizes import SymInt32, SymIntExpr, text

LAUNCH: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_mem")


class _LaunchParameter:
    """A launch parameter, stored as a SymInt32."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: KernelLaunchParams | None, cls: type) -> object:
        return self if owner is None else owner._values[self.name]

    def __set__(self, owner: KernelLaunchParams, value: int | IDimensionExpr | SymIntExpr) -> None:
        owner._values[self.name] = SymInt32(value)


class KernelLaunchParams(Fixed):
    """Launch parameters of a kernel: blocks, threads per block, and bytes of shared memory.

    >>> from anyrt.api.plugins.functions.sizes import ShapeExpr, cdiv
    >>> launch = KernelLaunchParams(block_x=256)
    >>> launch.grid_x = cdiv(ShapeExpr(1000), 256)
    >>> launch
    <KernelLaunchParams: grid 4 1 1, block 256 1 1>
    """

    __slots__ = ("__weakref__", "_values")

    grid_x = _LaunchParameter("Blocks along the first axis.")
    grid_y = _LaunchParameter("Blocks along the second axis.")
    grid_z = _LaunchParameter("Blocks along the third axis.")
    block_x = _LaunchParameter("Threads of a block along the first axis.")
    block_y = _LaunchParameter("Threads of a block along the second axis.")
    block_z = _LaunchParameter("Threads of a block along the third axis.")
    shared_mem = _LaunchParameter("Bytes of shared memory of a block.")

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

    @one_line
    def __repr__(self) -> str:
        grid, block = (" ".join(text(self._values[n]) for n in LAUNCH[k : k + 3]) for k in (0, 3))
        return f": grid {grid}, block {block}"
