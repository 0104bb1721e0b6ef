"""The diagnostic codes of plans and engines: reading, compiling, running, refitting (see codes.py)."""

from __future__ import annotations

from typing import Final

REBUILD: Final = "build the plan again with this library"
REPORT: Final = "please report it"

PLANS: dict[int, tuple[str, str, str]] = {
    601: (
        "plan truncated",
        "The plan ends before the length that it states",
        "copy the file again, or build the plan again",
    ),
    602: (
        "checksum differs",
        "The plan was altered after it was written",
        "copy the file again, or build the plan again",
    ),
    603: (
        "plan of another format",
        "The plan was written by a newer version, or by one that is too old",
        REBUILD,
    ),
    604: ("header lies about sizes", "Offsets and sizes do not fit the file or each other", REBUILD),
    605: ("malformed header", "The header is too deep, too large, or has values of wrong types", REBUILD),
    606: ("not a plan", "The bytes do not start like a plan", REBUILD),
    607: ("invalid graph in the plan", "The graph in the plan breaks the rules of graphs", REBUILD),
    608: (
        "plan file changed",
        "The file was shortened or written to after it was mapped into memory",
        "load it again; rename a new file over the old one instead of writing to it",
    ),
}

BINDINGS: dict[int, tuple[str, str, str]] = {
    701: (
        "missing address",
        "Every input and output needs an address before it runs",
        "call context.set_tensor_address(name, memory)",
    ),
    702: (
        "null address",
        "A tensor that has elements cannot be at address 0",
        "call context.set_tensor_address(name, memory) with memory that is there",
    ),
    703: (
        "bound array of the wrong type",
        "The array's type differs from the tensor's",
        "convert the array with astype",
    ),
    704: (
        "bound array of the wrong shape",
        "The array's shape or size differs from the tensor's",
        "bind an array of this size",
    ),
    705: (
        "wrong memory layout",
        "Arrays are C-contiguous, aligned, and on this machine",
        "bind an array made with numpy.ascontiguousarray",
    ),
    706: (
        "unknown tensor name",
        "The engine has no tensor of this name in this role",
        "list(engine) has the names",
    ),
    707: (
        "shape missing",
        "A dynamic input needs a shape before it runs",
        "call context.set_input_shape(name, shape)",
    ),
    708: (
        "context is busy",
        "A context runs one inference at a time",
        "give each thread a context of its own",
    ),
    709: (
        "output allocator failed",
        "The output allocator gave no memory",
        "return an address with room for them",
    ),
    710: ("inconsistent shapes", "Shapes given for this run contradict each other", "give shapes that agree"),
    711: (
        "memory shared wrongly",
        "An output has memory of its own, but the update of a cache, which has the cache's",
        "bind the output to another array, and the update of a cache to the cache's",
    ),
    712: (
        "no memory at the address",
        "An address leads to memory of this process, as much as the tensor has, that may be read, or written "
        "for an output; a block that the program has given back is no memory any more",
        "give the address of memory that is there, or the array itself, which is kept",
    ),
}

RESOURCES: dict[int, tuple[str, str, str]] = {
    801: (
        "memory limit exceeded",
        "More memory is needed than the configured limit allows",
        "raise the limit, or use smaller shapes",
    ),
    802: ("out of memory", "The machine has no memory left", "free memory, or use smaller shapes"),
    803: (
        "cannot write",
        "The disk is full, or a file or its folder may not be written; what was there stays as it was",
        "free space on the disk, or name another folder",
    ),
}

COMPILE: dict[int, tuple[str, str, str]] = {
    806: (
        "compiled code refused",
        "Compiled code refers to unknown symbols or is malformed",
        "clear the cache with `anyrt cache clear`",
    ),
    807: ("internal error", "A fault of this library; please report it", REPORT),
    808: ("LLVM refused the code", "A fault of this library; please report it", REPORT),
    809: (
        "no such target",
        "The code generator does not know this processor or feature level",
        "name a level that is there, in ANYRT_CPU or --cpu",
    ),
    810: (
        "wrong access in a kernel",
        "A kernel uses memory or a value that it may not; a fault of this library",
        REPORT,
    ),
}

PLUGINS: dict[int, tuple[str, str, str]] = {
    821: (
        "second creator of a name",
        "Each creator of plug-ins has a name, a version and a namespace that no other one has",
        "deregister the other one first, or give this one another name, version or namespace",
    ),
    822: (
        "wrong answer of a plug-in",
        "What a plug-in or creator tells of itself does not fit: types, sizes, formats, counts or names",
        "correct the method that is named",
    ),
    823: (
        "unknown to the plug-in registry",
        "No creator, library or resource of this name is registered",
        "register it: trt.get_plugin_registry().register_creator(Creator(), namespace)",
    ),
    824: (
        "exception in a plug-in",
        "A method of a plug-in or creator raised an exception, whose traceback is in the log",
        "the traceback in the log says where",
    ),
    825: (
        "plug-in wrote where it must not",
        "Beside an output, or into an input, which checked builds look for",
        "write only as many elements as output_desc says",
    ),
    826: (
        "library of plug-ins refused",
        "The file has no creators that this machine can use",
        "give a file of Python that defines classes of creators, or a shared object with a table of them",
    ),
}

REFITS: dict[int, tuple[str, str, str]] = {
    841: (
        "engine cannot be refitted",
        "Weights are exchanged in engines that were built for it",
        "set BuilderFlag.REFIT, REFIT_INDIVIDUAL or REFIT_IDENTICAL, and build again",
    ),
    842: (
        "no such weights to refit",
        "The engine has no weights of this name, or of this layer and role, that may be exchanged",
        "ask refitter.get_all_weights() or refitter.get_all()",
    ),
    843: (
        "weights do not fit",
        "Weights have the count and the element type of those that they replace, and numbers that the engine "
        "can hold",
        "ask refitter.get_weights_prototype(name)",
    ),
    844: (
        "weights missing",
        "What an engine holds is made of several weights at once, or it was stripped of them",
        "give those that refitter.get_missing_weights() or refitter.get_missing() tell",
    ),
    845: (
        "weights of another network",
        "An engine that was built with REFIT_IDENTICAL takes the weights of its build alone",
        "give the same weights, or build with REFIT",
    ),
}

UNSUPPORTED: dict[int, tuple[str, str, str]] = {
    901: ("not supported", "This combination is outside what is implemented", "do without"),
    902: (
        "not there yet",
        "The name belongs to TensorRT's API and is not implemented yet",
        "do without it for now",
    ),
    903: (
        "a name of TensorRT 8.6",
        "TensorRT 10 removed it; a mode of `anyrt.compat` offers it",
        "use what took its place in TensorRT 10",
    ),
    904: (
        "operators not supported",
        "The model has operators that nothing here describes",
        'export the model without them, give a function for each: @anyrt.op("domain::Name"), or register '
        "plug-ins of their names",
    ),
}
