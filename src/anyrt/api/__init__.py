"""The TensorRT-shaped objects: what users hold. No mathematics lives here."""
