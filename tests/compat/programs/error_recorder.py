"""A user-defined error recorder on builder, runtime, engine and context receives their errors.

usage: error_recorder.py
"""

import numpy as np
import tensorrt as trt


class SilentLogger(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.messages = []

    def log(self, severity, msg):
        self.messages.append((severity, msg))


class Recorder(trt.IErrorRecorder):
    MAX_ERRORS = 3

    def __init__(self):
        trt.IErrorRecorder.__init__(self)
        self.errors, self.overflowed = [], False

    def clear(self):
        self.errors, self.overflowed = [], False

    def get_error_code(self, arg0):
        return self.errors[arg0][0] if arg0 < len(self.errors) else trt.ErrorCodeTRT.SUCCESS

    def get_error_desc(self, arg0):
        return self.errors[arg0][1] if arg0 < len(self.errors) else ""

    def has_overflowed(self):
        return self.overflowed

    def num_errors(self):
        return len(self.errors)

    def get_num_errors(self):
        return len(self.errors)

    def report_error(self, arg0, arg1):
        if len(self.errors) == self.MAX_ERRORS:
            self.overflowed = True
            return True
        self.errors.append((arg0, arg1))
        return False


def network_with_wrong_shapes(builder):
    network = builder.create_network(0)
    x = network.add_input("x", trt.float32, (2, 3))
    y = network.add_input("y", trt.float32, (4, 5))
    op = trt.MatrixOperation.NONE
    layer = network.add_matrix_multiply(x, op, y, op)
    if layer is not None:
        network.mark_output(layer.get_output(0))
    return network


def good_plan(builder):
    network = builder.create_network(0)
    x = network.add_input("x", trt.float32, (-1, 3))
    y = network.add_unary(x, trt.UnaryOperation.NEG).get_output(0)
    y.name = "y"
    network.mark_output(y)
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("x", (1, 3), (2, 3), (4, 3))
    config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config)


def main():
    logger, recorder = SilentLogger(), Recorder()
    builder = trt.Builder(logger)
    assert builder.error_recorder is None
    builder.error_recorder = recorder
    plan = builder.build_serialized_network(
        network_with_wrong_shapes(builder), builder.create_builder_config()
    )
    assert plan is None
    assert builder.error_recorder.num_errors() > 0
    code, text = recorder.get_error_code(0), recorder.get_error_desc(0)
    print(code, text)
    assert isinstance(code, trt.ErrorCodeTRT)
    assert code != trt.ErrorCodeTRT.SUCCESS
    assert any(
        text in msg or msg in text for severity, msg in logger.messages if severity <= trt.ILogger.ERROR
    )
    recorder.clear()
    plan = good_plan(builder)
    assert plan is not None
    assert recorder.num_errors() == 0

    runtime = trt.Runtime(logger)
    runtime.error_recorder = recorder
    assert runtime.deserialize_cuda_engine(bytes(plan)[: plan.nbytes // 2]) is None
    assert recorder.num_errors() == 1
    recorder.clear()
    engine = runtime.deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    own = Recorder()
    context.error_recorder = own
    assert not context.set_input_shape("x", (5, 3))
    assert not context.execute_async_v3(0)
    assert (own.num_errors() > 0, recorder.num_errors()) == (True, 0)
    while not own.has_overflowed():
        context.set_input_shape("x", (9, 3))
    assert own.num_errors() == Recorder.MAX_ERRORS
    x, y = np.ones((4, 3), np.float32), np.empty((4, 3), np.float32)
    assert context.set_input_shape("x", (4, 3))
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    assert context.execute_async_v3(0)
    assert (y == -1).all()
    print("PASSED")


if __name__ == "__main__":
    main()
