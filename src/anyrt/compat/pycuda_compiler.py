"""Stand-in for `pycuda.compiler`: kernels for GPUs are refused by name."""

from __future__ import annotations

from anyrt.compat.refusing import refusing

SourceModule, DynamicModule, compile = (refusing(n) for n in ("SourceModule", "DynamicModule", "compile"))
