"""ONNX models: read, and described as networks layer by layer.

parser = anyrt.OnnxParser(network, logger)
parser.parse_from_file("model.onnx")
"""
