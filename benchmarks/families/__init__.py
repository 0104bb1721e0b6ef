"""Layers with data-dependent positions, order or sizes, beside other programs: python -m benchmarks families.

A case is one record. A family of layers is one file: the inputs of its cases, the expected results by NumPy,
and the functions of each program. A new row is one more case of a file, a new family one more file and its
line in `cases.py`.
"""
