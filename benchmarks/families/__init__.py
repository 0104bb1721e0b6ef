"""Layers whose places, order or numbers depend on data, beside other programs: python -m benchmarks families.

A case is one record, and all that is said of a family of layers stands in one file: what a case is given and
what it should give, by NumPy, and how each program is asked for it. A new row is one more case of a file, a
new family one more file and its line in `cases.py`.
"""
