"""Random graphs, ONNX models, rules and files for AnyRT: `python -m tools.fuzz --help`."""
