"""`torch.cuda.CUDAGraph` over host memory: captures engines on a stream, and operators of PyTorch.

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x) + 1
    x.copy_(other)
    graph.replay()                   # y has the value for `other`

During a capture, operators that create tensors are executed, since later code needs their shapes; each replay
executes them again. Writes to existing tensors are executed only by replays.
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
    """The work between the beginning and the end of a capture, which `replay` executes."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._stream = torch_cuda.default_stream()
        self._noting: Any = None
        self._graph: int | None = None

    def capture_begin(self, pool: object = None, capture_error_mode: str = "global") -> None:
        """Begin to record the work on this thread's stream."""
        self._stream = torch_cuda.current_stream()
        DEVICE.begin_capture(self._stream)
        self._noting = _noting(self._stream)
        self._noting.__enter__()

    def capture_end(self) -> None:
        """End the recording and keep its steps."""
        self._noting.__exit__(None, None, None)
        self._graph = DEVICE.end_capture(self._stream)

    def instantiate(self) -> None:
        """Do nothing: a graph can be replayed at once."""

    def replay(self) -> None:
        """Execute the recorded work."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        DEVICE.launch(self._graph, torch_cuda.current_stream())

    def reset(self) -> None:
        """Drop the recorded work."""
        if self._graph is not None:
            DEVICE.close_graph(self._graph)
        self._graph = None

    def pool(self) -> tuple[int, int]:
        """The handle of the memory pool, which has no effect."""
        return graph_pool_handle()


class graph:
    """Captures the work inside a `with` statement, on its own stream."""

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
    """A handle of a memory pool, which has no effect."""
    return 0, 0


def is_current_stream_capturing() -> bool:
    """Whether this thread's stream is captured."""
    return DEVICE.is_captured(torch_cuda.current_stream())


def _noting(stream: torch_cuda.Stream) -> object:
    """A dispatch mode that records each operator of PyTorch while it is active."""
    modes: ModuleType = importlib.import_module("torch.utils._python_dispatch")

    def dispatch(self: object, func: Any, types: object, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if any(tag.name == "inplace_view" for tag in func.tags):
            return func(*args, **named)  # a new shape for the same memory; recorded tensors keep their shapes
        again = functools.partial(func, *_kept(args), **_kept(named))
        if func._schema.is_mutable:  # the operands stay unchanged until a replay, as with CUDA
            DEVICE.captures.note(stream, again)
            return _written(func, args, named)
        out = func(*args, **named)
        DEVICE.captures.note(stream, functools.partial(_again, again, _kept(out)))
        return out

    kind: Callable[[], object] = type("Noting", (modes.TorchDispatchMode,), {"__torch_dispatch__": dispatch})
    return kind()


def _again(func: Callable[[], Any], out: Any) -> None:
    """Execute an operator again and copy its results to the tensors of the capture; views need no copy."""
    torch = importlib.import_module("torch")
    leaves = importlib.import_module("torch.utils._pytree").tree_leaves
    with torch.no_grad():
        for now, then in zip(leaves(func()), leaves(out), strict=True):
            if isinstance(now, torch.Tensor) and now.data_ptr() != then.data_ptr():
                then.copy_(now)


def _kept(values: Any) -> Any:
    """`values` with each tensor replaced by a new tensor on the same memory, whose shape does not change."""
    trees = importlib.import_module("torch.utils._pytree")
    return trees.tree_map(lambda x: x.detach() if hasattr(x, "detach") else x, values)


def _written(func: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """The operands that an operator writes and returns."""
    written = [
        kwargs.get(a.name, args[i] if i < len(args) else None)
        for i, a in enumerate(func._schema.arguments)
        if a.alias_info is not None and a.alias_info.is_write
    ]
    returned = written[: len(func._schema.returns)]
    return returned[0] if len(returned) == 1 else tuple(returned) or None
