"""Loop transformations: each file has one, a function from a kernel to a kernel, or to a `Fail` with the
reason.

The result of a kernel never changes, except for the order of sums. A transformation uses only the kernel
language and sizes, not graphs, primitives or instructions of processors. Information that the kernel does not
contain (an estimate of a dynamic size, a number of elements, the tables of taps) is passed as an argument.
"""
