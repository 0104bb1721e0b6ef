"""AnyRT in other programs: a backend of PyTorch's compiler, a runner of Polygraphy, functions for Ray, Spark,
Dask and Daft, and a runtime of MLServer and KServe.

Each file needs its program, which loads it through an entry point (pyproject.toml).
"""
