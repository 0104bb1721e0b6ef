"""The table of stable diagnostic codes: what each means, its class of error, its code for an error recorder.

The first digit names the kind of mistake. A code is never given a second meaning. The docs page of all codes
is generated from this table.

>>> CODES["AR101"].title
'rank too small for the layer'
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from anyrt.core.codes_of_engines import (
    BINDINGS,
    COMPILE,
    PLANS,
    PLUGINS,
    REFITS,
    REPORT,
    RESOURCES,
    UNSUPPORTED,
)
from anyrt.core.enums import ErrorCodeTRT as Trt


class Kind(Enum):
    """What sort of mistake a code names; every class in `core.errors` has one kind."""

    SHAPE, DTYPE, ARGUMENT, GRAPH, PROFILE, PLAN, BINDING = range(1, 8)
    RESOURCE, COMPILE, VERIFY, CANCELLED, NOT_SUPPORTED, PLUGIN = range(8, 14)
    REFIT = 20


@dataclass(frozen=True, slots=True)
class Code:
    """One diagnostic: `id` like "AR101", a title for tables, an explanation for the docs, and what to do in
    general; a message says more where it knows more."""

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
        "rank too small for the layer",
        "Scale reads a channel axis, so that its input needs at least 4 dimensions",
        "add dimensions of size 1 with add_shuffle",
    ),
    102: (
        "wrong coefficient count",
        "Shift, scale and power hold one value, one per channel, or one per element",
        "give 1 value, 1 for each channel or 1 for each element, as the mode says",
    ),
    103: (
        "volume mismatch",
        "A reshape keeps the number of elements",
        "give sizes whose product is the number of elements",
    ),
    104: ("more than one -1", "A reshape can infer one dimension only", "give all but one size"),
    105: (
        "-1 with zero volume",
        "Nothing can be inferred for -1 when the other dimensions multiply to zero",
        "give the size instead of -1",
    ),
    106: (
        "0 placeholder out of range",
        "A 0 copies the input dimension at its own position, which must exist",
        "give the size instead of 0",
    ),
    108: (
        "wrong number of sizes",
        "Shape, scales, sizes and strides have one entry for each dimension",
        "give one entry for each dimension",
    ),
    109: (
        "too many resized axes",
        "Resize changes a limited number of axes, depending on its mode",
        "resize in several layers, or in another mode",
    ),
    110: (
        "bad resize size",
        "A resized dimension is not negative, and is not made from an empty one",
        "give another size",
    ),
    111: (
        "too many elements",
        "A tensor holds at most 2^31 - 1 elements",
        "use smaller sizes, or split the tensor",
    ),
    112: (
        "dimensions do not broadcast",
        "Dimensions must be equal, or one of them 1",
        "make the sizes equal, or one of them 1",
    ),
    113: (
        "concatenated dimensions differ",
        "All inputs agree in every dimension but the concatenated one",
        "make the other dimensions equal first",
    ),
    114: (
        "slice out of bounds",
        "In strict mode every element that is read lies inside the input",
        "keep start and size inside the input, or choose another mode",
    ),
    115: (
        "rank over 8",
        "A tensor has at most 8 dimensions",
        "merge dimensions, or leave out those of size 1",
    ),
    116: (
        "squeeze of a dimension that is not 1",
        "Only dimensions of size 1 can be dropped",
        "leave that axis out",
    ),
    117: (
        "dimension must be static",
        "This dimension must be known when the network is built",
        "fix the size in the input",
    ),
    118: (
        "group count does not divide",
        "The number of channels is a multiple of the number of groups",
        "choose a number of groups that divides the channels",
    ),
    119: (
        "scale or bias does not fit",
        "Normalization scale and bias broadcast to the input",
        "reshape scale and bias with add_shuffle",
    ),
    120: (
        "negative dimension",
        "A dimension is 0 or more; -1 stands for one that is given later",
        "give a size of 0 or more",
    ),
    121: (
        "shape value unknown",
        "The values of this shape tensor cannot be computed before the run",
        "compute it from shapes and constants",
    ),
    122: (
        "ranks differ",
        "The operands need the same number of dimensions",
        "add dimensions of size 1 with add_shuffle",
    ),
    123: ("wrong shape of an operand", "The operand has one particular shape here", "give it that shape"),
    124: (
        "rank too large for the layer",
        "The layer takes fewer dimensions than the input has",
        "merge dimensions with add_shuffle",
    ),
    125: (
        "position too far away",
        "Positions around a tensor are counted in 32 bits",
        "choose a start, size or padding nearer to the tensor",
    ),
    126: (
        "window larger than its input",
        "A window fits into the input and the padding around it at least once",
        "add padding, or use a smaller window or dilation",
    ),
    130: (
        "sizes of a sum of products differ",
        "What products are summed over has one size in all operands that have it",
        "make the sizes equal, or transpose an operand",
    ),
    131: (
        "write beyond the end",
        "A cache has room for what is written into it, from the position on where that begins",
        "write less, or earlier, or give the cache more positions",
    ),
    132: (
        "number of elements out of range",
        "TopK gives 1 to 3840 elements, and no more than its axis has",
        "ask for another number",
    ),
    133: (
        "length out of range",
        "A sequence has 0 or more elements, and no more than its axis",
        "give lengths of 0 to the size of the sequence axis",
    ),
}

DTYPES: dict[int, tuple[str, str, str]] = {
    201: (
        "weights of mixed types",
        "Shift, scale and power of one layer have one type",
        "convert the weights to one type",
    ),
    202: (
        "type not allowed for the layer",
        "The layer does not take elements of this type",
        "cast it with add_cast",
    ),
    203: (
        "operand types differ",
        "The operands of the layer have one type",
        "cast one of them with add_cast",
    ),
    204: (
        "no such element type",
        "The array's type has no counterpart among the element types",
        "convert the array with astype",
    ),
    205: (
        "array of the wrong type",
        "The array's type differs from what is wanted here",
        "convert the array with astype",
    ),
    206: ("cast not allowed", "There is no conversion between these two types", "cast to another type"),
    207: ("type name unknown", "The name is none of the element types", "write one of these names"),
}

ARGUMENTS: dict[int, tuple[str, str, str]] = {
    301: ("bad permutation", "A permutation names every axis exactly once", "name every axis exactly once"),
    302: (
        "axes mask misses",
        "A mask of axes selects at least one axis, and only axes that exist",
        "bit i stands for dimension i: write 1 << i",
    ),
    303: ("axis outside the rank", "An axis lies between 0 and the rank minus 1", "name an axis that exists"),
    304: ("value outside its set", "The attribute takes only certain values", "choose one of these"),
    305: ("duplicate axes", "Every axis may be named once", "drop the repeated axis"),
    306: ("missing attribute", "The layer needs an attribute that was not set", "set it"),
    307: (
        "weights freed or not contiguous",
        "Weights are borrowed: the array must live and be C-contiguous",
        "keep the array alive until the build, and make it with numpy.ascontiguousarray",
    ),
    308: ("number is not finite", "The attribute must be a finite number", "give finite numbers"),
    309: (
        "normalization axes and groups",
        "With more than one group all axes after the channel are normalised",
        "use one group, or all axes after the channel",
    ),
    310: (
        "setting not allowed now",
        "The attribute cannot be changed in this state",
        "set it at another time",
    ),
    311: ("wrong kind of argument", "The argument has the wrong Python type", "pass one"),
    312: ("index out of range", "The index is not below the count", "count from 0"),
    313: (
        "no such attribute",
        "Objects have the attributes that their class declares, and no others",
        "look at the spelling",
    ),
    314: (
        "a network's file fails",
        "The Python file that describes a network raises an exception",
        "mend the file",
    ),
    315: ("plug-in function misfits", "It takes what register names, in order", "write it as wanted"),
    320: (
        "equation does not fit",
        "An equation has a term for each input, a small letter for each dimension, and an output of these",
        'write terms as in "ij,jk->ik"',
    ),
    331: (
        "calibrator gives what cannot be used",
        "A calibrator tells its algorithm and size of batches, and gives at least one batch before None: an "
        "address for each input of the network",
        "look at the method of the calibrator that the message names",
    ),
    332: (
        "calibration cache does not fit",
        "A calibration cache begins with a line of version and algorithm, that of the calibrator, and has a "
        "line for each tensor, which hold the scales of this network",
        "delete the cache, so that the calibrator is asked for batches",
    ),
    333: (
        "precision cannot be had",
        "With OBEY_PRECISION_CONSTRAINTS layers compute in the precision that was set",
        "set another precision, or PREFER_PRECISION_CONSTRAINTS",
    ),
    334: (
        "choice of algorithms cannot be used",
        "An algorithm selector answers with indices of the choices that it was given, different ones; with "
        "REJECT_EMPTY_ALGORITHMS at least one",
        "return a list of such indices",
    ),
}

OUTPUTS: dict[int, tuple[str, str, str]] = {
    401: (
        "output not marked",
        "A network needs at least one marked output",
        "call network.mark_output(tensor)",
    ),
}

GRAPH: dict[int, tuple[str, str, str]] = {
    402: ("duplicate names", "Names of inputs, outputs and layers are unique", "give another name"),
    403: (
        "tensor of another network",
        "Layers connect tensors of their own network",
        "add the layer to the network that the tensor is of",
    ),
    404: (
        "input marked as output",
        "A network input cannot be an output as well",
        "pass it through add_identity first",
    ),
    405: ("bad name", "A name has 1 to 4095 characters and no NUL", "give such a name"),
    406: ("layer input missing", "The layer has an input that is not connected", "connect it"),
    407: ("tensor is not an output", "Only a marked tensor can be unmarked", "mark it first"),
    408: (
        "cycle in the network",
        "A layer may not depend on its own output",
        "connect no layer to what follows from it",
    ),
    409: (
        "no cache to update in place",
        "A cache is an input of the network that nothing else reads, and its update is an output",
        "mark the update as an output, and let other layers read that",
    ),
    410: (
        "assertion fails",
        "A condition that the network asserts does not hold",
        "feed what the message of the layer asks for",
    ),
    411: (
        "loop or conditional incomplete",
        "A loop has one COUNT, one WHILE or both, a conditional has one condition, and each is known before "
        "what depends on it",
        "add what is missing, once",
    ),
    412: (
        "loop does not end",
        "A loop that no COUNT limits has taken its `max_trips` turns, and wants another one",
        "raise max_trips, or make the WHILE condition false",
    ),
    413: (
        "more turns than room",
        "A loop output that concatenates has a place for each turn, as many as its length says",
        "give the loop output a greater length",
    ),
    414: (
        "tensor of the inside of a loop or conditional",
        "What is computed inside a loop or conditional is read outside by its outputs alone",
        "pass it through add_loop_output, or add_output of the conditional",
    ),
    415: (
        "no format for the tensor",
        "Each vectorised format holds elements of certain types, and tensors of so many dimensions; a shape "
        "tensor, a debug tensor and a cache that is updated in place are LINEAR",
        "allow LINEAR, or another format that takes the type",
    ),
    416: (
        "no ONNX model",
        "The bytes are no message of Protocol Buffers that ONNX defines, or end too early",
        "check the file: onnx.checker.check_model(path)",
    ),
    417: (
        "model contradicts itself",
        "A model names what is not there, gives something twice, or leaves out what an operator needs",
        "export the model again, or correct it",
    ),
    418: (
        "weights are not where the model says",
        "Weights in other files lie in the folder of the model, and are as long as the model says; links may "
        "lead to the store of the cache that the folder belongs to",
        "copy the files that the model names beside it",
    ),
}

PROFILES: dict[int, tuple[str, str, str]] = {
    501: (
        "profile missing",
        "A profile gives the ranges of all dynamic inputs; a build without any profile takes every shape",
        "call profile.set_shape(name, min, opt, max) and config.add_optimization_profile(profile)",
    ),
    502: (
        "profile rank differs",
        "Minimum, optimum and maximum have the rank of the input",
        "give as many numbers as the input has dimensions",
    ),
    503: (
        "profile out of order",
        "Minimum <= optimum <= maximum holds in every dimension",
        "give numbers in this order",
    ),
    504: (
        "profile changes a fixed dimension",
        "A static dimension has its own value in the profile",
        "give the size of the network three times",
    ),
    505: (
        "shape outside the profile",
        "The shape lies between the profile's minimum and maximum",
        "use another profile, or build with a wider one",
    ),
    506: (
        "unknown name in the profile",
        "The profile names an input that the network does not have",
        "write the name of an input",
    ),
    507: (
        "no such profile",
        "The profile index is not below the number of profiles",
        "config.add_optimization_profile adds one before the build",
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
    **_block(
        Kind.CANCELLED, Trt.INVALID_STATE, {804: ("cancelled", "The build was interrupted", "build again")}
    ),
    **_block(
        Kind.VERIFY,
        Trt.FAILED_COMPUTATION,
        {805: ("verification mismatch", "A kernel differs from its reference", REPORT)},
    ),
    **_block(Kind.COMPILE, Trt.INTERNAL_ERROR, COMPILE),
    **_block(Kind.PLUGIN, Trt.FAILED_EXECUTION, PLUGINS),
    **_block(Kind.REFIT, Trt.INVALID_ARGUMENT, REFITS),
    **_block(Kind.NOT_SUPPORTED, Trt.UNSUPPORTED_STATE, UNSUPPORTED),
}
