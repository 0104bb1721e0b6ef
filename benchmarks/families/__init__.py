"""Layers with data-dependent positions, order or sizes, beside other programs: python -m benchmarks families.

A case is one record: inputs, an ONNX node, and a function of PyTorch. AnyRT reads the node as other programs
do, and ONNX's reference computes the expected results, unless the case has functions of its own. A family of
layers is one file. A new row is one more case of a file, a new family one more file and its line in
`cases.py`.
"""
