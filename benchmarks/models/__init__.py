"""Whole models that PyTorch exports to ONNX, beside other programs: python -m benchmarks models.

`networks.py` writes the models, with random weights, and needs PyTorch and onnx; `programs.py` loads a model
in each program; `session.py` has the measuring processes; `kernels.py` measures each of our kernels;
`report.py` writes docs/tables/models.md. A new model is one more function in `networks.py`, and its name in
`command.py`.
"""
