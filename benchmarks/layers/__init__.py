"""Chains of steps (`benchmarks/steps.py`) as each program computes them: `python -m benchmarks ops`."""
