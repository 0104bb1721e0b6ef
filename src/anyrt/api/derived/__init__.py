"""Layer classes, `add_*` methods and docstrings, made from the operators' records."""
