"""Layers and chains of layers: `python -m benchmarks ops`.

cases, spellings    the cases as chains of steps (`benchmarks/steps.py`); formula: one of the steps
arrays              the steps with a library of arrays, by the names of its functions
reference, taps     the inputs of cases, and their expected results in float64
goals, report       goals; tables
in_anyrt, onnx_model, in_torch    the steps for each program
"""
