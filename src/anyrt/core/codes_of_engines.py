"""The diagnostic codes of plans and engines: reading, compiling, running, refitting (see codes.py)."""

from __future__ import annotations

from typing import Final

REBUILD: Final = "rebuild the plan with this version of AnyRT"
REPORT: Final = "please report it with this message, the output of `anyrt info` and the network"

PLANS: dict[int, tuple[str, str, str]] = {
    601: (
        "truncated plan",
        "The plan is shorter than its header states",
        "copy the file again, or rebuild the plan",
    ),
    602: (
        "checksum mismatch",
        "The plan changed after it was written",
        "copy the file again, or rebuild the plan",
    ),
    603: (
        "unsupported plan version",
        "The plan was written by a newer version of AnyRT, or by one that is too old",
        REBUILD,
    ),
    604: (
        "inconsistent plan header",
        "Offsets and sizes in the header contradict each other or the size of the file",
        REBUILD,
    ),
    605: (
        "malformed plan header",
        "The header is nested too deeply, is too large, or has values of wrong types",
        REBUILD,
    ),
    606: ("not a plan", "The bytes do not begin with the signature of a plan", REBUILD),
    607: ("invalid graph in the plan", "The graph in the plan violates the rules for graphs", REBUILD),
    608: (
        "plan file changed",
        "The file was shortened or written to after it was mapped into memory",
        "load the file again; to replace a plan, rename a new file over it",
    ),
}

BINDINGS: dict[int, tuple[str, str, str]] = {
    701: (
        "missing address",
        "Each input and output needs an address before an inference",
        "call context.set_tensor_address(name, memory)",
    ),
    702: (
        "null address",
        "The address of a tensor with elements is not 0",
        "call context.set_tensor_address(name, memory) with allocated memory",
    ),
    703: (
        "wrong type of a bound array",
        "The array has the element type of the tensor",
        "convert the array with astype",
    ),
    704: (
        "wrong size of a bound array",
        "The array has the shape or size of the tensor",
        "bind an array of this size",
    ),
    705: (
        "wrong memory layout",
        "Arrays are C-contiguous, aligned, and in host memory",
        "bind an array from numpy.ascontiguousarray",
    ),
    706: (
        "unknown tensor name",
        "The engine has no tensor of this name and role",
        "list(engine) returns the names",
    ),
    707: (
        "missing shape",
        "Each dynamic input needs a shape before an inference",
        "call context.set_input_shape(name, shape)",
    ),
    708: ("context is busy", "A context runs one inference at a time", "create a context for each thread"),
    709: (
        "output allocator failed",
        "The output allocator returned no memory",
        "return an address with room for the output",
    ),
    710: ("inconsistent shapes", "The input shapes contradict each other", "pass shapes that agree"),
    711: (
        "shared output memory",
        "An output does not share memory with another tensor, except the update of a cache, which uses the "
        "memory of the cache",
        "bind the output to another array, and the update of a cache to the cache",
    ),
    712: (
        "address is not accessible",
        "An address refers to memory of this process that is as large as the tensor, readable, and writable "
        "for an output; freed blocks are not accessible",
        "pass the address of allocated memory, or pass the array, which AnyRT keeps alive",
    ),
    713: (
        "no communicator for these ranks",
        "A context of an engine that exchanges arrays between ranks has a communicator of these ranks",
        "call context.set_communicator(ranks) with as many ranks as the layers have",
    ),
}

RESOURCES: dict[int, tuple[str, str, str]] = {
    801: (
        "memory limit exceeded",
        "The operation needs more memory than the configured limit",
        "raise the limit, or use smaller shapes",
    ),
    802: ("out of memory", "The machine has no free memory", "free memory, or use smaller shapes"),
    803: (
        "cannot write",
        "The disk is full, or the file or its folder is not writable; existing files are unchanged",
        "free disk space, or use another folder",
    ),
}

PROCESSES: dict[int, tuple[str, str, str]] = {
    811: (
        "a process ended or is late",
        "All processes of a job run until it is done, and answer within its time limit",
        "look for the first error of the other processes, and start all of them again",
    ),
}

COMPILE: dict[int, tuple[str, str, str]] = {
    806: (
        "compiled code rejected",
        "The compiled code refers to unknown symbols or is malformed",
        "clear the cache with `anyrt cache clear`",
    ),
    807: ("internal error in AnyRT", "An internal error in AnyRT", REPORT),
    808: ("LLVM rejected the code", "An internal error in AnyRT: LLVM rejected the generated code", REPORT),
    809: (
        "unknown target",
        "The code generator does not support this processor or feature level",
        "use one of the listed levels in ANYRT_CPU or --cpu",
    ),
    810: (
        "invalid access in a kernel",
        "A kernel accesses memory out of bounds or uses an undefined value; this is an internal error in "
        "AnyRT",
        REPORT,
    ),
}

PLUGINS: dict[int, tuple[str, str, str]] = {
    821: (
        "duplicate plug-in creator",
        "No two plug-in creators have the same name, version and namespace",
        "deregister the other creator first, or change the name, version or namespace",
    ),
    822: (
        "invalid plug-in result",
        "A method of a plug-in or creator returned wrong types, shapes, formats, counts or names",
        "correct the named method",
    ),
    823: (
        "not in the plug-in registry",
        "No creator, library or resource of this name is registered",
        "register it: trt.get_plugin_registry().register_creator(Creator(), namespace)",
    ),
    824: (
        "exception in a plug-in",
        "A method of a plug-in or creator raised an exception; the log has its traceback",
        "see the traceback in the log",
    ),
    825: (
        "plug-in wrote out of bounds",
        "A plug-in wrote outside an output or into an input; builds with config.checked detect this",
        "write only as many elements as output_desc states",
    ),
    826: (
        "plug-in library rejected",
        "The file has no plug-in creators for this machine",
        "use a Python file that defines creator classes, or a shared object with a creator table",
    ),
}

REFITS: dict[int, tuple[str, str, str]] = {
    841: (
        "engine is not refittable",
        "Only an engine that was built for refitting accepts new weights",
        "set BuilderFlag.REFIT, REFIT_INDIVIDUAL or REFIT_IDENTICAL, and build again",
    ),
    842: (
        "unknown weights",
        "The engine has no refittable weights of this name, or of this layer and role",
        "refitter.get_all_weights() and refitter.get_all() list them",
    ),
    843: (
        "weights do not fit",
        "New weights have the count and the element type of the old ones, and values that the engine can "
        "represent",
        "refitter.get_weights_prototype(name) returns the required count and type",
    ),
    844: (
        "missing weights",
        "A constant of the engine depends on several weights, or the plan contains no weights",
        "set the weights that refitter.get_missing_weights() or refitter.get_missing() lists",
    ),
    845: (
        "weights of another network",
        "An engine that was built with REFIT_IDENTICAL accepts only the weights of its build",
        "pass the same weights, or build with REFIT",
    ),
}

UNSUPPORTED: dict[int, tuple[str, str, str]] = {
    901: ("not supported", "AnyRT does not support this combination", "avoid this combination"),
    902: (
        "name not implemented",
        "The name belongs to TensorRT's API, and AnyRT does not implement it",
        "avoid this name",
    ),
    903: (
        "name of TensorRT 8.6",
        "TensorRT 10 removed the name; `python -m anyrt.compat --api 8.6` provides it",
        "use the replacement in TensorRT 10",
    ),
    904: (
        "operator not supported",
        "AnyRT does not support an operator of the model",
        'export the model without it, implement it with @anyrt.op("domain::Name"), or '
        "register a plug-in of its name",
    ),
    905: (
        "TensorRT rejects this",
        "AnyRT accepts more than TensorRT; with ANYRT_LIKE_TENSORRT=1 it does not",
        "use only what TensorRT accepts, or unset ANYRT_LIKE_TENSORRT",
    ),
}
