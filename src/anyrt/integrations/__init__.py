"""AnyRT inside other programs: as a backend of PyTorch's compiler, a runner of Polygraphy,
a step of Ray, Spark, Dask and Daft, and a runtime of MLServer and KServe.

Each file needs the program that it is for, and is loaded by it through an entry point (pyproject.toml).
"""
