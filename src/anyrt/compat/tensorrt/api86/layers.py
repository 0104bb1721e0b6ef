"""Attributes of layers with two spatial axes, as the height and width of 8.6."""

from __future__ import annotations

from anyrt.api.model.dims import DimsHW
from anyrt.api.model.layer import ILayer


def of_two_axes(name: str) -> property:
    """A property for the attribute `name`_nd as height and width.

    >>> of_two_axes("stride").__doc__
    'Height and width of `stride_nd`.'
    """

    def get(self: ILayer) -> DimsHW:
        return DimsHW(getattr(self, f"{name}_nd"))

    def assign(self: ILayer, size: object) -> None:
        setattr(self, f"{name}_nd", size)

    return property(get, assign, doc=f"Height and width of `{name}_nd`.")
