"""Generators of documents for tools/gen_docs.py, one module for each kind of page."""
