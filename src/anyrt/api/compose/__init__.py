"""Layers, tensors with arithmetic, sizes and loops: how importers and plug-ins write what they mean."""
