"""Python runs this when a child process starts: `anyrt.compat.install` has put this folder on PYTHONPATH.

It installs there what the parent has, and then runs the `sitecustomize` that it hides, if there is one.
"""

import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent


def _install() -> None:
    try:
        compat = import_module("anyrt.compat.install")
    except ImportError:  # another interpreter, which has no AnyRT: a child that needs none
        return
    api, *force = os.environ["ANYRT_COMPAT"].split()
    compat.install(force=bool(force), api=api)


def _run_hidden() -> None:
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if Path(p).resolve() != HERE])
    if spec is None or spec.loader is None:
        return
    sys.modules["sitecustomize"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


if "ANYRT_COMPAT" in os.environ:
    _install()
_run_hidden()
