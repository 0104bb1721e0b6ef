"""Layers and chains of layers: `python -m benchmarks ops`.

cases, spellings    what is measured, as chains of steps (`benchmarks/steps.py`); formula: one of the steps
arrays              the steps by a library of arrays: what each program calls its functions
reference, taps     the cases with numbers, and what the right result is, in float64
goals, report       what must be reached; tables
in_anyrt, onnx_model, in_torch, jax_steps    the steps for each program
"""
