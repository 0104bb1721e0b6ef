"""The problems that the parser reports.

error = parser.get_error(0)
error.node(), error.node_operator(), error.code()       # 3, "Conv", ErrorCode.INVALID_GRAPH
"""

from __future__ import annotations

from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line
from anyrt.core.codes import Kind
from anyrt.core.enums import ErrorCode
from anyrt.core.errors import AnyrtError
from anyrt.onnx.graph import Failure

_BY_KIND = {
    Kind.SHAPE: ErrorCode.UNSUPPORTED_NODE_SHAPE,
    Kind.DTYPE: ErrorCode.UNSUPPORTED_NODE_DATATYPE,
    Kind.ARGUMENT: ErrorCode.UNSUPPORTED_NODE_ATTR,
    Kind.GRAPH: ErrorCode.INVALID_GRAPH,
    Kind.NOT_SUPPORTED: ErrorCode.UNSUPPORTED_NODE,
    Kind.RESOURCE: ErrorCode.MEM_ALLOC_FAILED,
}
_BY_CODE = {"AR416": ErrorCode.MODEL_DESERIALIZE_FAILED, "AR418": ErrorCode.INVALID_GRAPH}


@fold
class ParserError:
    """One problem of a model; created by the parser."""

    __slots__ = ("_failure", "_file", "_line", "_path")

    def __init__(self, failure: Failure, path: str = "") -> None:
        self._failure = failure
        self._path = path
        self._file, self._line = _place(failure.error)

    def code(self) -> ErrorCode:
        """The kind of problem."""
        error = self._failure.error
        return _BY_CODE.get(error.code, _BY_KIND.get(error.kind, ErrorCode.INTERNAL_ERROR))

    def desc(self) -> str:
        """The text of the problem: place, got, wanted, cure."""
        return str(self._failure.error)

    def file(self) -> str:
        """The file of AnyRT that raised the error."""
        return self._file

    def line(self) -> int:
        """The line in `file()`."""
        return self._line

    def func(self) -> str:
        """The file of the model, if it was read from a file; otherwise the operator."""
        return self._path or self._failure.op

    def node(self) -> int:
        """The index of the node in the graph; -1 if the problem belongs to no node."""
        return self._failure.index

    def node_name(self) -> str:
        """The name of the node."""
        return self._failure.name

    def node_operator(self) -> str:
        """The operator of the node."""
        return self._failure.op

    def local_function_stack(self) -> list[str]:
        """The functions and graphs around the node, outermost first."""
        return list(self._failure.stack)

    def local_function_stack_size(self) -> int:
        """The number of functions and graphs around the node."""
        return len(self._failure.stack)

    def __str__(self) -> str:
        """The file, the node with the functions and graphs around it, and `desc()`."""
        fail, around = self._failure, "".join(f", in {name}" for name in reversed(self._failure.stack))
        what = f"node {fail.index} [{fail.op}] {fail.name}{around}: " if fail.op else ""
        return f"{self._path}{': ' if self._path else ''}{what}{fail.error}"

    @one_line
    def __repr__(self) -> str:
        return f" {self}"


def _place(error: AnyrtError) -> tuple[str, int]:
    """The file and line that raised the error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename.rpartition("/")[2], trace.tb_lineno)
    )
