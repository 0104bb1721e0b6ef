"""A finder that installs in a child process what its parent has, when the program first asks for any of it.

Until then nothing of AnyRT is imported, and nothing else that Python has not imported when it starts. Where
AnyRT or NumPy is not there for this Python, everything goes on without them.
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

# What `anyrt.compat.names` finds or looks after, beside all that begins with `tensorrt`.
NAMES = ("cuda", "cupy", "pkg_resources", "pycuda", "torch")
# What programs open by ctypes, what errors of others begin with, and what libraries of plug-ins have.
LIBRARIES = tuple(f"lib{n}.so" for n in ("cuda", "cudart", "nvinfer", "nvinfer_plugin", "nvonnxparser"))
THEIRS = ("libnv", "libcu")
PLUGINS = "anyrt_plugin_table"


class Later:
    """The first of the finders, until it has installed; `wanted`: what the parent has, told by `install`."""

    def __init__(self, request: str) -> None:
        self.api, *self.force = request.split()
        self.lock, self.is_done = RLock(), False
        self.undo: Callable[[], None] | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders find, after installing where the name asks for that."""
        if name.startswith("tensorrt") or name.partition(".")[0] in NAMES:
            is_reload = name in sys.modules
            self.install()
            if not is_reload:  # or Python would take the module's own spec, and run AnyRT a second time
                sys.modules.pop(name, None)
            return self.other_spec(name, path, target)
        if self.is_done:
            return None
        if name == "ctypes":
            return self.followed(name, self.watch)
        if name == "anyrt" and self.api != "10":  # its classes have more names then
            return self.followed(name, lambda module: self.install())
        return None

    def other_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        """What the other finders find."""
        others = (f.find_spec(name, path, target) for f in list(sys.meta_path) if f is not self)
        return next((spec for spec in others if spec is not None), None)

    def followed(self, name: str, then: Callable[[ModuleType], None]) -> ModuleSpec | None:
        """The same for a module that `then` is called with, once it has run."""
        spec = self.other_spec(name, None, None)
        if spec is not None and spec.loader is not None:
            spec.loader = Followed(spec.loader, then)  # type: ignore[assignment]  # which has a loader's methods
        return spec

    def find_distributions(self, context: object = None) -> Iterable[Distribution]:
        """Metadata of TensorRT, where it is asked for by name."""
        if not str(getattr(context, "name", None)).lower().startswith("tensorrt"):
            return ()
        self.install()
        finders = (f for f in sys.meta_path if type(f).__module__ == "anyrt.compat.names")
        return next((f.find_distributions(context) for f in finders), ())  # type: ignore[attr-defined]

    def watch(self, ctypes: ModuleType) -> None:
        """Install when a program opens a library of CUDA's or TensorRT's, or one of plug-ins."""
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
        """Install, once; this finder is gone then."""
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
                pass  # they are not there, or of another Python
            finally:
                sys.meta_path[:] = [f for f in sys.meta_path if f is not self]


class Followed:
    """Loads as `loader` does, then calls `then` on the module."""

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
    """Wait for the first import that asks for it."""
    later = Later(os.environ["ANYRT_COMPAT"])
    sys.meta_path.insert(0, later)
    if any(name in sys.modules for name in NAMES):
        later.install()
    elif "ctypes" in sys.modules:
        later.watch(sys.modules["ctypes"])
