"""`torch.cuda.CUDAGraph` over host memory: engines on the captured stream, and operators of PyTorch.

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x) + 1
    x.copy_(other)
    graph.replay()                   # y has the value for `other`

What PyTorch makes in a capture is made, as its shapes are needed, and made again in each replay; what it
writes to tensors that are there is written by replays only.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from anyrt.compat.host.device import DEVICE
from anyrt.compat.torch import cuda as torch_cuda

# Any: PyTorch's operators, their arguments and results.


class CUDAGraph:
    """What was done between the beginning and the end of a capture, to be done again."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._stream = torch_cuda.default_stream()
        self._noting: Any = None
        self._graph: int | None = None

    def capture_begin(self, pool: object = None, capture_error_mode: str = "global") -> None:
        """Note from now on what is done on this thread's stream."""
        self._stream = torch_cuda.current_stream()
        DEVICE.begin_capture(self._stream)
        self._noting = _noting(self._stream)
        self._noting.__enter__()

    def capture_end(self) -> None:
        """Keep what was noted."""
        self._noting.__exit__(None, None, None)
        self._graph = DEVICE.end_capture(self._stream)

    def instantiate(self) -> None:
        """A graph can be replayed as it is."""

    def replay(self) -> None:
        """Do all of it again."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        DEVICE.launch(self._graph, torch_cuda.current_stream())

    def reset(self) -> None:
        """Forget it."""
        if self._graph is not None:
            DEVICE.close_graph(self._graph)
        self._graph = None

    def pool(self) -> tuple[int, int]:
        """Memory has no pools here."""
        return graph_pool_handle()


class graph:
    """Captures what a `with` statement does, on a stream of its own."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: object = None,
        stream: torch_cuda.Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        self.cuda_graph = cuda_graph
        self.stream_ctx = torch_cuda.StreamContext(stream or torch_cuda.Stream())

    def __enter__(self) -> None:
        self.stream_ctx.__enter__()
        self.cuda_graph.capture_begin()

    def __exit__(self, *raised: Any) -> None:
        self.cuda_graph.capture_end()
        self.stream_ctx.__exit__(*raised)


def graph_pool_handle() -> tuple[int, int]:
    """Memory has no pools here."""
    return 0, 0


def is_current_stream_capturing() -> bool:
    """Whether this thread's stream is captured."""
    return DEVICE.is_captured(torch_cuda.current_stream())


def _noting(stream: torch_cuda.Stream) -> object:
    """What PyTorch asks about each operator, as long as it is entered."""
    modes: ModuleType = importlib.import_module("torch.utils._python_dispatch")

    def dispatch(self: object, func: Any, types: object, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if any(tag.name == "inplace_view" for tag in func.tags):
            return func(*args, **named)  # another shape for the same memory; what is noted keeps its own
        again = functools.partial(func, *_kept(args), **_kept(named))
        if func._schema.is_mutable:  # its operands stay as they are until a replay, as with CUDA
            DEVICE.captures.note(stream, again)
            return _written(func, args, named)
        out = func(*args, **named)
        DEVICE.captures.note(stream, functools.partial(_again, again, _kept(out)))
        return out

    kind: Callable[[], object] = type("Noting", (modes.TorchDispatchMode,), {"__torch_dispatch__": dispatch})
    return kind()


def _again(func: Callable[[], Any], out: Any) -> None:
    """Run an operator, and leave its results where they were at first: views are there already."""
    torch = importlib.import_module("torch")
    leaves = importlib.import_module("torch.utils._pytree").tree_leaves
    with torch.no_grad():
        for now, then in zip(leaves(func()), leaves(out), strict=True):
            if isinstance(now, torch.Tensor) and now.data_ptr() != then.data_ptr():
                then.copy_(now)


def _kept(values: Any) -> Any:
    """The same, with tensors of their own on the same memory, whose shapes stay."""
    trees = importlib.import_module("torch.utils._pytree")
    return trees.tree_map(lambda x: x.detach() if hasattr(x, "detach") else x, values)


def _written(func: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """The operands that an operator writes to and returns."""
    written = [
        kwargs.get(a.name, args[i] if i < len(args) else None)
        for i, a in enumerate(func._schema.arguments)
        if a.alias_info is not None and a.alias_info.is_write
    ]
    returned = written[: len(func._schema.returns)]
    return returned[0] if len(returned) == 1 else tuple(returned) or None
