"""Random graphs, ONNX models, rules and files against AnyRT: `python -m tools.fuzz --help`."""
