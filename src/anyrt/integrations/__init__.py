"""AnyRT inside other programs: as a backend of PyTorch's compiler, and as a runner of Polygraphy.

Each file needs the program that it is for, and is loaded by it through an entry point (pyproject.toml).
"""
