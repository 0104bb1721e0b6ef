"""Fewer bits beside other programs: bfloat16, half, int8, weights of a few bits: python -m benchmarks bits.

`rows.py` has the rows with their entries and goals; `networks.py` writes the models, with random weights, and
needs PyTorch and onnx; `products.py` writes products with weights of a few bits, and needs onnx; `narrow.py`
converts a float32 model to bfloat16; `programs.py` loads an entry in each program; `session.py` has the
measuring processes; `judge.py` compares with float64; `report.py` writes docs/tables/bits.md. A new row is
one more value in `rows.py`.
"""
