"""Layers, tensors with arithmetic, sizes and loops, for importers and plug-ins."""
