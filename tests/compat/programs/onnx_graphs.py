"""ONNX models from tuples, for several programs."""

from onnx import TensorProto, helper, numpy_helper


def model(nodes, inputs, outputs, weights=(), opset=17):
    """`nodes`: (operator, inputs, outputs, attributes); `inputs`: shapes by name; `weights`: pairs."""
    built = [helper.make_node(op, i, o, name=o[0], **attributes) for op, i, o, attributes in nodes]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    arrays = [numpy_helper.from_array(a, n) for n, a in dict(weights).items()]
    graph = helper.make_graph(built, "graph", infos, ends, arrays)
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    result.ir_version = 9
    return result
