"""Loop transformations: each file holds one, a function from kernel to kernel, or to the reason why not.

What a kernel computes never changes, but for the order in which sums are added up. A transformation knows the
kernel language and sizes, nothing of graphs, primitives or processors' instructions; what it cannot see in a
kernel (an estimate of an open size, a number of elements, the tables of taps) is handed in.
"""
