"""Layer classes, `add_*` methods and docstrings, derived from the operators' records."""
