"""The table of stable diagnostic codes: what each means, its class of error, its code for an error recorder.

The first digit names the kind of mistake. A code is never given a second meaning. The docs page of all codes
is generated from this table.

>>> CODES["AR101"].title
'rank too small for the layer'
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from anyrt.core.advice import ADVICE
from anyrt.core.enums import ErrorCodeTRT as Trt


class Kind(Enum):
    """What sort of mistake a code names; every class in `core.errors` has one kind."""

    SHAPE, DTYPE, ARGUMENT, GRAPH, PROFILE, PLAN, BINDING = range(1, 8)
    RESOURCE, COMPILE, VERIFY, CANCELLED, NOT_SUPPORTED = range(8, 13)


@dataclass(frozen=True, slots=True)
class Code:
    """One diagnostic: `id` like "AR101", a title for tables, an explanation for the docs, and advice."""

    id: str
    title: str
    explanation: str
    do: str
    kind: Kind
    trt: Trt


def _block(kind: Kind, trt: Trt, rows: dict[int, tuple[str, str]]) -> dict[str, Code]:
    named = {f"AR{n}": row for n, row in rows.items()}
    return {id: Code(id, title, text, ADVICE[id], kind, trt) for id, (title, text) in named.items()}


SHAPES: dict[int, tuple[str, str]] = {
    101: (
        "rank too small for the layer",
        "Scale reads a channel axis, so that its input needs at least 4 dimensions",
    ),
    102: (
        "wrong coefficient count",
        "Shift, scale and power hold one value, one per channel, or one per element",
    ),
    103: ("volume mismatch", "A reshape keeps the number of elements"),
    104: ("more than one -1", "A reshape can infer one dimension only"),
    105: ("-1 with zero volume", "Nothing can be inferred for -1 when the other dimensions multiply to zero"),
    106: (
        "0 placeholder out of range",
        "A 0 copies the input dimension at its own position, which must exist",
    ),
    107: ("resize without a size", "Resize needs a shape, scales, or a second input"),
    108: ("wrong number of sizes", "Shape, scales, sizes and strides have one entry for each dimension"),
    109: ("too many resized axes", "Resize changes a limited number of axes, depending on its mode"),
    110: ("bad resize size", "A resized dimension is not negative, and is not made from an empty one"),
    111: ("too many elements", "A tensor holds at most 2^31 - 1 elements"),
    112: ("dimensions do not broadcast", "Dimensions must be equal, or one of them 1"),
    113: ("concatenated dimensions differ", "All inputs agree in every dimension but the concatenated one"),
    114: ("slice out of bounds", "In strict mode every element that is read lies inside the input"),
    115: ("rank over 8", "A tensor has at most 8 dimensions"),
    116: ("squeeze of a dimension that is not 1", "Only dimensions of size 1 can be dropped"),
    117: ("dimension must be static", "This dimension must be known when the network is built"),
    118: ("group count does not divide", "The number of channels is a multiple of the number of groups"),
    119: ("scale or bias does not fit", "Normalization scale and bias broadcast to the input"),
    120: ("negative dimension", "A dimension is 0 or more; -1 stands for one that is given later"),
    121: ("shape value unknown", "The values of this shape tensor cannot be computed before the run"),
    122: ("ranks differ", "The operands need the same number of dimensions"),
    123: ("wrong shape of an operand", "The operand has one particular shape here"),
    124: ("rank too large for the layer", "The layer takes fewer dimensions than the input has"),
    125: ("position too far away", "Positions around a tensor are counted in 32 bits"),
}

DTYPES: dict[int, tuple[str, str]] = {
    201: ("weights of mixed types", "Shift, scale and power of one layer have one type"),
    202: ("type not allowed for the layer", "The layer does not take elements of this type"),
    203: ("operand types differ", "The operands of the layer have one type"),
    204: ("no such element type", "The array's type has no counterpart among the element types"),
    205: ("array of the wrong type", "The array's type differs from what is wanted here"),
    206: ("cast not allowed", "There is no conversion between these two types"),
    207: ("type name unknown", "The name is none of the element types"),
}

ARGUMENTS: dict[int, tuple[str, str]] = {
    301: ("bad permutation", "A permutation names every axis exactly once"),
    302: ("axes mask misses", "A mask of axes selects at least one axis, and only axes that exist"),
    303: ("axis outside the rank", "An axis lies between 0 and the rank minus 1"),
    304: ("value outside its set", "The attribute takes only certain values"),
    305: ("duplicate axes", "Every axis may be named once"),
    306: ("missing attribute", "The layer needs an attribute that was not set"),
    307: ("weights freed or not contiguous", "Weights are borrowed: the array must live and be C-contiguous"),
    308: ("number is not finite", "The attribute must be a finite number"),
    309: (
        "normalization axes and groups",
        "With more than one group all axes after the channel are normalised",
    ),
    310: ("setting not allowed now", "The attribute cannot be changed in this state"),
    311: ("wrong kind of argument", "The argument has the wrong Python type"),
    312: ("index out of range", "The index is not below the count"),
    313: ("no such attribute", "Objects have the attributes that their class declares, and no others"),
    314: ("a network's file fails", "The Python file that describes a network raises an exception"),
}

GRAPH: dict[int, tuple[str, str]] = {
    401: ("output not marked", "A network needs at least one marked output"),
    402: ("duplicate names", "Names of inputs, outputs and layers are unique"),
    403: ("tensor of another network", "Layers connect tensors of their own network"),
    404: ("input marked as output", "A network input cannot be an output as well"),
    405: ("bad name", "A name has 1 to 4095 characters and no NUL"),
    406: ("layer input missing", "The layer has an input that is not connected"),
    407: ("tensor is not an output", "Only a marked tensor can be unmarked"),
    408: ("cycle in the network", "A layer may not depend on its own output"),
}

PROFILES: dict[int, tuple[str, str]] = {
    501: ("profile missing", "A network with dynamic inputs needs an optimization profile for each of them"),
    502: ("profile rank differs", "Minimum, optimum and maximum have the rank of the input"),
    503: ("profile out of order", "Minimum <= optimum <= maximum holds in every dimension"),
    504: ("profile changes a fixed dimension", "A static dimension has its own value in the profile"),
    505: ("shape outside the profile", "The shape lies between the profile's minimum and maximum"),
    506: ("unknown name in the profile", "The profile names an input that the network does not have"),
    507: ("no such profile", "The profile index is not below the number of profiles"),
}

PLANS: dict[int, tuple[str, str]] = {
    601: ("plan truncated", "The plan ends before the length that it states"),
    602: ("checksum differs", "The plan was altered after it was written"),
    603: ("plan of another format", "The plan was written by a newer version, or by one that is too old"),
    604: ("header lies about sizes", "Offsets and sizes do not fit the file or each other"),
    605: ("malformed header", "The header is too deep, too large, or has values of wrong types"),
    606: ("not a plan", "The bytes do not start like a plan"),
    607: ("invalid graph in the plan", "The graph in the plan breaks the rules of graphs"),
    608: ("plan file changed", "The file was shortened or written to after it was mapped into memory"),
}

BINDINGS: dict[int, tuple[str, str]] = {
    701: ("missing address", "Every input and output needs an address before it runs"),
    702: ("null address", "A tensor that has elements cannot be at address 0"),
    703: ("bound array of the wrong type", "The array's type differs from the tensor's"),
    704: ("bound array of the wrong shape", "The array's shape or size differs from the tensor's"),
    705: ("wrong memory layout", "Arrays are C-contiguous, aligned, and on this machine"),
    706: ("unknown tensor name", "The engine has no tensor of this name in this role"),
    707: ("shape missing", "A dynamic input needs a shape before it runs"),
    708: ("context is busy", "A context runs one inference at a time"),
    709: ("output allocator failed", "The output allocator gave no memory"),
    710: ("inconsistent shapes", "Shapes given for this run contradict each other"),
}

RESOURCES: dict[int, tuple[str, str]] = {
    801: ("memory limit exceeded", "More memory is needed than the configured limit allows"),
    802: ("out of memory", "The machine has no memory left"),
    803: ("cannot write", "The disk is full or the cache directory cannot be written"),
}

COMPILE: dict[int, tuple[str, str]] = {
    806: ("compiled code refused", "Compiled code refers to unknown symbols or is malformed"),
    807: ("internal error", "A fault of this library; please report it"),
    808: ("LLVM refused the code", "A fault of this library; please report it"),
    809: ("no such target", "The code generator does not know this processor or feature level"),
    810: (
        "wrong access in a kernel",
        "A kernel uses memory or a value that it may not; a fault of this library",
    ),
}

UNSUPPORTED: dict[int, tuple[str, str]] = {
    901: ("not supported", "This combination is outside what is implemented"),
    902: ("not there yet", "The name belongs to TensorRT's API and is not implemented yet"),
    903: ("a name of TensorRT 8.6", "TensorRT 10 removed it; a mode of `anyrt.compat` offers it"),
}

CODES: dict[str, Code] = {
    **_block(Kind.SHAPE, Trt.INVALID_ARGUMENT, SHAPES),
    **_block(Kind.DTYPE, Trt.INVALID_ARGUMENT, DTYPES),
    **_block(Kind.ARGUMENT, Trt.INVALID_ARGUMENT, ARGUMENTS),
    **_block(Kind.GRAPH, Trt.INVALID_STATE, GRAPH),
    **_block(Kind.PROFILE, Trt.INVALID_ARGUMENT, PROFILES),
    **_block(Kind.PLAN, Trt.INVALID_ARGUMENT, PLANS),
    **_block(Kind.BINDING, Trt.INVALID_ARGUMENT, BINDINGS),
    **_block(Kind.RESOURCE, Trt.FAILED_ALLOCATION, RESOURCES),
    **_block(Kind.CANCELLED, Trt.INVALID_STATE, {804: ("cancelled", "The build was interrupted")}),
    **_block(
        Kind.VERIFY,
        Trt.FAILED_COMPUTATION,
        {805: ("verification mismatch", "A kernel differs from its reference")},
    ),
    **_block(Kind.COMPILE, Trt.INTERNAL_ERROR, COMPILE),
    **_block(Kind.NOT_SUPPORTED, Trt.UNSUPPORTED_STATE, UNSUPPORTED),
}
