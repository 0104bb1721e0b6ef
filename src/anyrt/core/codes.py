"""The table of error codes: the meaning of each, its exception class, and its code for an error recorder.

The first digit names the kind of error. The meaning of a code never changes. docs/codes.md and the table in
docs/troubleshooting.md are generated from this table.

>>> CODES["AR101"].title
'rank too small'
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from anyrt.core.codes_of_engines import (
    BINDINGS,
    COMPILE,
    PLANS,
    PLUGINS,
    PROCESSES,
    REFITS,
    REPORT,
    RESOURCES,
    UNSUPPORTED,
)
from anyrt.core.enums import ErrorCodeTRT as Trt


class Kind(Enum):
    """The kind of error of a code; each class in `core.errors` has one kind."""

    SHAPE, DTYPE, ARGUMENT, GRAPH, PROFILE, PLAN, BINDING = range(1, 8)
    RESOURCE, COMPILE, VERIFY, CANCELLED, NOT_SUPPORTED, PLUGIN = range(8, 14)
    REFIT = 20


@dataclass(frozen=True, slots=True)
class Code:
    """One code: an `id` like "AR101", a title, an explanation, and a general cure `do`, which a message may
    replace with a more specific one."""

    id: str
    title: str
    explanation: str
    do: str
    kind: Kind
    trt: Trt


def _block(kind: Kind, trt: Trt, rows: dict[int, tuple[str, str, str]]) -> dict[str, Code]:
    named = {f"AR{n}": row for n, row in rows.items()}
    return {id: Code(id, title, text, do, kind, trt) for id, (title, text, do) in named.items()}


SHAPES: dict[int, tuple[str, str, str]] = {
    101: (
        "rank too small",
        "The layer reads a channel axis, so its input needs at least 4 dimensions",
        "add dimensions of size 1 with add_shuffle",
    ),
    102: (
        "wrong number of coefficients",
        "Shift, scale and power hold 1 value, 1 value per channel or 1 value per element, as the mode "
        "selects",
        "pass as many values as the mode requires",
    ),
    103: (
        "volume mismatch",
        "A reshape keeps the number of elements",
        "pass dimensions whose product is the number of elements",
    ),
    104: ("more than one -1", "A reshape can infer only one dimension", "use -1 for one dimension only"),
    105: (
        "-1 with zero volume",
        "A dimension of -1 cannot be inferred if the other dimensions multiply to zero",
        "replace -1 with the dimension",
    ),
    106: (
        "0 placeholder out of range",
        "A 0 copies the input dimension at the same position, which must exist",
        "replace 0 with the dimension",
    ),
    108: (
        "wrong number of dimensions",
        "Shapes, scales, sizes and strides have one entry per dimension",
        "pass one entry per dimension",
    ),
    109: (
        "too many resized axes",
        "Each mode of Resize changes a limited number of axes",
        "resize in several layers or use another mode",
    ),
    110: (
        "invalid resize dimension",
        "A resized dimension is 0 or more, and an empty dimension stays empty",
        "use another size",
    ),
    111: (
        "too many elements",
        "A tensor has at most 2^31 - 1 elements",
        "use smaller dimensions or split the tensor",
    ),
    112: (
        "dimensions do not broadcast",
        "Two dimensions must be equal, or one of them must be 1",
        "make the dimensions equal, or one of them 1",
    ),
    113: (
        "concatenated dimensions differ",
        "All inputs of a concatenation agree in every dimension except the concatenated one",
        "make the other dimensions equal",
    ),
    114: (
        "slice out of bounds",
        "In STRICT_BOUNDS mode a slice reads only elements inside the input",
        "keep start and size inside the input, or use another mode",
    ),
    115: ("rank over 8", "A tensor has at most 8 dimensions", "merge dimensions or remove those of size 1"),
    116: (
        "squeezed dimension is not 1",
        "Squeeze removes only dimensions of size 1",
        "remove the axis from the list",
    ),
    117: (
        "dimension must be static",
        "The builder needs the value of this dimension",
        "set the dimension of the input to a fixed value",
    ),
    118: (
        "not divisible into groups",
        "The number of channels is a multiple of the number of groups",
        "use a number of groups that divides the channels",
    ),
    119: (
        "scale or bias does not broadcast",
        "The scale and bias of a normalization broadcast to its input",
        "reshape scale and bias with add_shuffle",
    ),
    120: (
        "negative dimension",
        "A dimension is 0 or more; -1 marks a dynamic dimension",
        "use a dimension of 0 or more",
    ),
    121: (
        "shape tensor is not computable",
        "The values of a shape tensor depend only on shapes, constants and shape inputs",
        "compute the tensor from shapes and constants",
    ),
    122: (
        "ranks differ",
        "The operands have the same number of dimensions",
        "add dimensions of size 1 with add_shuffle",
    ),
    123: (
        "wrong operand shape",
        "The operand has the shape that the layer requires",
        "pass an operand of that shape",
    ),
    124: (
        "rank too large",
        "The layer accepts fewer dimensions than the input has",
        "merge dimensions with add_shuffle",
    ),
    125: (
        "position too far away",
        "Positions relative to a tensor fit into 32 bits",
        "use a start, size or padding closer to the tensor",
    ),
    126: (
        "window larger than its input",
        "A window fits at least once into the input with its padding",
        "add padding, or use a smaller window or dilation",
    ),
    130: (
        "summed dimensions differ",
        "A dimension that is summed over has one size in all operands",
        "make the dimensions equal or transpose an operand",
    ),
    131: (
        "write beyond the end of a cache",
        "The update of a cache fits between the write position and the end of the cache",
        "write fewer positions, write earlier, or use a larger cache",
    ),
    132: (
        "k out of range",
        "TopK returns 1 to 3840 elements, and at most the size of its axis",
        "use another k",
    ),
    133: (
        "length out of range",
        "The length of a sequence is between 0 and the size of its axis",
        "pass lengths from 0 to the size of the sequence axis",
    ),
}

DTYPES: dict[int, tuple[str, str, str]] = {
    201: (
        "mixed types of weights",
        "Shift, scale and power of a layer have the same type",
        "convert the weights to one type",
    ),
    202: (
        "type not supported by the layer",
        "The layer does not support this element type",
        "cast the tensor with add_cast",
    ),
    203: (
        "operand types differ",
        "The operands of the layer have the same element type",
        "cast one of them with add_cast",
    ),
    204: (
        "unknown array type",
        "The type of the array corresponds to no element type",
        "convert the array with astype",
    ),
    205: ("wrong array type", "The array has another type than required", "convert the array with astype"),
    206: ("cast not supported", "AnyRT does not convert between these two types", "cast to another type"),
    207: ("unknown type name", "The name is not an element type", "use one of these names"),
}

ARGUMENTS: dict[int, tuple[str, str, str]] = {
    301: ("invalid permutation", "A permutation names each axis exactly once", "name each axis exactly once"),
    302: (
        "invalid axes mask",
        "A mask of axes selects at least one axis, and only axes of the tensor",
        "set bit i for axis i: 1 << i",
    ),
    303: ("axis out of range", "An axis is between 0 and the rank minus 1", "use an axis of the tensor"),
    304: ("invalid value", "The argument accepts only certain values", "use one of these"),
    305: ("duplicate axes", "Each axis is named at most once", "remove the repeated axis"),
    306: ("missing attribute", "The layer requires an attribute that is not set", "set the attribute"),
    307: (
        "weights freed or not contiguous",
        "The builder reads weights from the array that was passed, which must exist until the build and be "
        "C-contiguous",
        "keep the array alive until the build, and create it with numpy.ascontiguousarray",
    ),
    308: ("not a finite number", "The attribute is a finite number", "pass finite numbers"),
    309: (
        "axes do not fit the groups",
        "With more than one group, a normalization covers all axes after the channel",
        "use one group, or all axes after the channel",
    ),
    310: (
        "not allowed in this state",
        "The attribute or call is not allowed in the present state of the object",
        "use it in another state",
    ),
    311: (
        "wrong Python type",
        "The argument has another Python type than required",
        "pass the required type",
    ),
    312: (
        "index out of range",
        "The index is 0 or more and below the count",
        "use an index from 0 to the count minus 1",
    ),
    313: ("unknown attribute", "The class has no attribute of this name", "check the spelling"),
    314: (
        "network script raises an exception",
        "The Python file that defines the network raises an exception",
        "correct the file",
    ),
    315: (
        "wrong signature of a plug-in function",
        "The parameters of a plug-in function are those of its registration, in order",
        "use the required signature",
    ),
    320: (
        "invalid equation",
        "An equation has one term per input and one lower-case letter per dimension; the output uses these "
        "letters",
        'write terms as in "ij,jk->ik"',
    ),
    331: (
        "invalid calibrator result",
        "A calibrator returns its algorithm, its batch size, and at least one batch before None; a batch "
        "has one address per network input",
        "correct the method of the calibrator that the message names",
    ),
    332: (
        "calibration cache does not fit",
        "A calibration cache begins with the version and algorithm of the calibrator and has a scale for "
        "each tensor of this network",
        "delete the cache to calibrate again",
    ),
    333: (
        "precision not available",
        "With OBEY_PRECISION_CONSTRAINTS each layer runs in its requested precision",
        "request another precision, or use PREFER_PRECISION_CONSTRAINTS",
    ),
    334: (
        "invalid algorithm selection",
        "An algorithm selector returns distinct indices into the list that it received, and at least one "
        "with REJECT_EMPTY_ALGORITHMS",
        "return a list of such indices",
    ),
}

OUTPUTS: dict[int, tuple[str, str, str]] = {
    401: ("no marked output", "A network has at least one marked output", "call network.mark_output(tensor)"),
}

GRAPH: dict[int, tuple[str, str, str]] = {
    402: ("duplicate names", "Names of inputs, outputs and layers are unique", "use another name"),
    403: (
        "tensor of a different network",
        "A layer reads only tensors of its own network",
        "add the layer to the network that the tensor belongs to",
    ),
    404: (
        "input marked as output",
        "A network input cannot be marked as an output",
        "pass the input through add_identity first",
    ),
    405: ("invalid name", "A name has 1 to 4095 characters and no NUL", "use such a name"),
    406: ("missing layer input", "An input of the layer is not connected", "connect the input"),
    407: ("tensor is not a marked output", "Only a marked tensor can be unmarked", "mark the tensor first"),
    408: (
        "cycle in the network",
        "A layer does not depend on its own output",
        "remove the connection to a later tensor",
    ),
    409: (
        "cache cannot be updated in place",
        "The cache is a network input that no other layer reads, and its update is an output",
        "mark the update as an output, and let other layers read the update",
    ),
    410: (
        "assertion failed",
        "A condition that the network asserts is false",
        "pass inputs that satisfy the condition",
    ),
    411: (
        "incomplete loop or conditional",
        "A loop has one COUNT limit, one WHILE limit or both, and a conditional has one condition; set them "
        "before the tensors that depend on them",
        "add the missing part once",
    ),
    412: (
        "loop does not end",
        "A loop without a COUNT limit reached `max_trips` iterations and its WHILE condition is still true",
        "raise max_trips, or make the WHILE condition false",
    ),
    413: (
        "more iterations than room",
        "A concatenating loop output has room for as many iterations as its length",
        "pass a greater length to the loop output",
    ),
    414: (
        "tensor used outside its loop or conditional",
        "Layers outside a loop or conditional read only its outputs",
        "pass the tensor through add_loop_output, or through add_output of the conditional",
    ),
    415: (
        "no supported format",
        "Each vectorized format supports certain element types and ranks. Shape tensors, debug tensors and "
        "caches that are updated in place use LINEAR",
        "allow LINEAR, or another format that supports the type",
    ),
    416: (
        "not an ONNX model",
        "The bytes are not a complete protocol buffer message of ONNX",
        "check the file: onnx.checker.check_model(path)",
    ),
    417: (
        "inconsistent model",
        "The model uses an undefined name, defines a name twice, or lacks an input or attribute that an "
        "operator requires",
        "export the model again, or correct it",
    ),
    418: (
        "external weights not found",
        "External data lies in the folder of the model and has the stated length; links may lead to the "
        "blob store of the cache that contains the folder",
        "copy the external data files into the folder of the model",
    ),
}

PROFILES: dict[int, tuple[str, str, str]] = {
    501: (
        "missing profile",
        "Each optimization profile has ranges for all dynamic inputs; without a profile, the engine accepts "
        "all shapes",
        "call profile.set_shape(name, min, opt, max) and config.add_optimization_profile(profile)",
    ),
    502: (
        "wrong rank in a profile",
        "Minimum, optimum and maximum have the rank of the input",
        "pass one number per dimension of the input",
    ),
    503: (
        "profile out of order",
        "Minimum <= optimum <= maximum holds for each dimension",
        "pass the dimensions in this order",
    ),
    504: (
        "profile changes a static dimension",
        "A profile repeats the static dimensions of the input",
        "use the dimension of the network in min, opt and max",
    ),
    505: (
        "shape outside the profile",
        "The shape lies between the minimum and the maximum of the profile",
        "select another profile, or build with a wider one",
    ),
    506: (
        "unknown input name",
        "The profile or option names an input that the network does not have",
        "use the name of an input",
    ),
    507: (
        "profile index out of range",
        "The profile index is below the number of profiles",
        "add the profile with config.add_optimization_profile before the build",
    ),
}

CODES: dict[str, Code] = {
    **_block(Kind.SHAPE, Trt.INVALID_ARGUMENT, SHAPES),
    **_block(Kind.DTYPE, Trt.INVALID_ARGUMENT, DTYPES),
    **_block(Kind.ARGUMENT, Trt.INVALID_ARGUMENT, ARGUMENTS),
    **_block(Kind.GRAPH, Trt.INVALID_STATE, GRAPH),
    **_block(Kind.GRAPH, Trt.INVALID_CONFIG, OUTPUTS),
    **_block(Kind.PROFILE, Trt.INVALID_ARGUMENT, PROFILES),
    **_block(Kind.PLAN, Trt.INVALID_ARGUMENT, PLANS),
    **_block(Kind.BINDING, Trt.INVALID_ARGUMENT, BINDINGS),
    **_block(Kind.RESOURCE, Trt.FAILED_ALLOCATION, RESOURCES),
    **_block(Kind.RESOURCE, Trt.FAILED_EXECUTION, PROCESSES),
    **_block(
        Kind.CANCELLED,
        Trt.INVALID_STATE,
        {804: ("cancelled", "The user or a progress monitor cancelled the build", "build again")},
    ),
    **_block(
        Kind.VERIFY,
        Trt.FAILED_COMPUTATION,
        {805: ("verification mismatch", "The result of a kernel differs from its reference", REPORT)},
    ),
    **_block(Kind.COMPILE, Trt.INTERNAL_ERROR, COMPILE),
    **_block(Kind.PLUGIN, Trt.FAILED_EXECUTION, PLUGINS),
    **_block(Kind.REFIT, Trt.INVALID_ARGUMENT, REFITS),
    **_block(Kind.NOT_SUPPORTED, Trt.UNSUPPORTED_STATE, UNSUPPORTED),
}
