"""Fewer bits beside other programs: bfloat16, half, int8, weights of a few bits: python -m benchmarks bits.

`rows.py` says what is measured, by whom, and what each row must reach; `networks.py` makes the models, with
random weights, and needs PyTorch and onnx; `products.py` makes products with weights of a few bits, and needs
onnx; `narrow.py` makes a bfloat16 model of a float32 one; `programs.py` says how each program is asked;
`session.py` is the processes that measure; `judge.py` compares with float64; `report.py` writes
docs/tables/bits.md. A new row is one more value in `rows.py`.
"""
