"""Reads ONNX models and adds their layers to networks.

parser = anyrt.OnnxParser(network, logger)
parser.parse_from_file("model.onnx")
"""
