"""A finder that installs the stand-ins of the parent in a child process, when the program first imports one.

Until then it imports nothing of AnyRT, and no module that Python does not import at its start. If this Python
lacks AnyRT or NumPy, the process continues without the stand-ins.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock

TYPE_CHECKING = False  # without `typing`, which takes as long to import as Python to start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from importlib.metadata import Distribution
    from types import ModuleType

# The names that `anyrt.compat.names` finds or patches, besides all that begin with `tensorrt`.
NAMES = ("cuda", "cupy", "pkg_resources", "pycuda", "torch")
# Libraries that programs open with ctypes, the start of error messages, and the symbol of plug-in libraries.
LIBRARIES = tuple(f"lib{n}.so" for n in ("cuda", "cudart", "nvinfer", "nvinfer_plugin", "nvonnxparser"))
THEIRS = ("libnv", "libcu")
PLUGINS = "anyrt_plugin_table"


class Later:
    """The first finder, until it has installed the stand-ins; `wanted`: the setting of the parent's
    `install`."""

    def __init__(self, request: str) -> None:
        self.api, *self.force = request.split()
        self.lock, self.is_done = RLock(), False
        self.undo: Callable[[], None] | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec from the other finders, after installing the stand-ins if the name requires them."""
        if name.startswith("tensorrt") or name.partition(".")[0] in NAMES:
            is_reload = name in sys.modules
            self.install()
            if not is_reload:  # or Python would use the module's own spec, and execute AnyRT twice
                sys.modules.pop(name, None)
            return self.other_spec(name, path, target)
        if self.is_done:
            return None
        if name == "ctypes":
            return self.followed(name, self.watch)
        if name == "anyrt" and self.api != "10":  # its classes get more names by that
            return self.followed(name, lambda module: self.install())
        return None

    def other_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        """The spec from the other finders."""
        others = (f.find_spec(name, path, target) for f in list(sys.meta_path) if f is not self)
        return next((spec for spec in others if spec is not None), None)

    def followed(self, name: str, then: Callable[[ModuleType], None]) -> ModuleSpec | None:
        """The same, for a module on which `then` is called after its import."""
        spec = self.other_spec(name, None, None)
        if spec is not None and spec.loader is not None:
            spec.loader = Followed(spec.loader, then)  # type: ignore[assignment]  # a loader
        return spec

    def find_distributions(self, context: object = None) -> Iterable[Distribution]:
        """The metadata of TensorRT, if the program requests it by name."""
        if not str(getattr(context, "name", None)).lower().startswith("tensorrt"):
            return ()
        self.install()
        finders = (f for f in sys.meta_path if type(f).__module__ == "anyrt.compat.names")
        return next((f.find_distributions(context) for f in finders), ())  # type: ignore[attr-defined]

    def watch(self, ctypes: ModuleType) -> None:
        """Install when a program opens a library of CUDA or TensorRT, or a library of plug-ins."""
        kind = ctypes.CDLL
        opened = kind.__init__

        def new(cls: type, name: object = None, *more: object, **named: object) -> object:
            path = os.path.basename(os.fspath(name)) if isinstance(name, str | os.PathLike) else ""
            if cls is kind and str(path).startswith(LIBRARIES) and not self.is_done:
                self.install()
                return kind.__new__(cls, name, *more, **named)
            return object.__new__(cls)

        def init(library: object, name: object, *more: object, **named: object) -> None:
            try:
                opened(library, name, *more, **named)
                is_ours = type(library) is kind and name is not None and hasattr(library, PLUGINS)
            except OSError as error:
                if self.is_done or not str(error).startswith(THEIRS):
                    raise
                is_ours = True
            if is_ours and not self.is_done:
                self.install()
                kind.__init__(library, name, *more, **named)

        def undo() -> None:
            kind.__init__ = opened

        kind.__new__, kind.__init__, self.undo = staticmethod(new), init, undo

    def install(self) -> None:
        """Install the stand-ins once, and remove this finder."""
        with self.lock:
            if self.is_done:
                return
            self.is_done = True
            if self.undo is not None:
                self.undo()
            try:
                __import__("anyrt.compat.install")
                sys.modules["anyrt.compat.install"].install(force=bool(self.force), api=self.api)
            except (ImportError, SyntaxError):
                pass  # AnyRT or NumPy is missing, or belongs to another Python
            finally:
                sys.meta_path[:] = [f for f in sys.meta_path if f is not self]


class Followed:
    """Loads with `loader`, then calls `then` on the module."""

    def __init__(self, loader: Loader, then: Callable[[ModuleType], None]) -> None:
        self.loader, self.then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None, "the import system sets it"
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.then(module)


def wait() -> None:
    """Add the finder, which waits for the first import that needs the stand-ins."""
    later = Later(os.environ["ANYRT_COMPAT"])
    sys.meta_path.insert(0, later)
    if any(name in sys.modules for name in NAMES):
        later.install()
    elif "ctypes" in sys.modules:
        later.watch(sys.modules["ctypes"])
