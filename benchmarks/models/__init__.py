"""Whole models that PyTorch exports to ONNX, beside other programs: python -m benchmarks models.

`networks.py` makes the models, with random weights, and needs PyTorch and onnx; `programs.py` says how each
program is asked for one; `session.py` is the processes that measure; `kernels.py` looks at each kernel of
ours; `report.py` writes docs/tables/models.md. A new model is one more function in `networks.py`, and its
name in `command.py`.
"""
