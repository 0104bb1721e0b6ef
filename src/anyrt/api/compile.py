"""The one place where the API calls the compiler, loaded at the first build as it brings LLVM along."""

from __future__ import annotations

from importlib import import_module

from anyrt.compiler.request import BuildRequest


def compile_request(request: BuildRequest) -> bytes:
    """The plan file of a network."""
    built: bytes = import_module("anyrt.compiler.driver").build(request)
    return built
