"""What tools/gen_docs.py generates, one module for each kind of page."""
