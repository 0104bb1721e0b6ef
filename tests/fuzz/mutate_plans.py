"""Load and run plans with random changes: `python mutate_plans.py FIRST LAST`.

Case k is deterministic. Every second one has valid checksums, so that the code behind the checksums is
tested. Prints the cases that failed; a case that crashes the process is the last one on stderr.
"""

import contextlib
import faulthandler
import hashlib
import json
import random
import struct
import sys

import numpy as np

import anyrt as trt
from anyrt.api.edge.quiet import Refused
from anyrt.core.dtype import numpy_dtype, storage_bytes
from anyrt.plan.file import FORMAT
from tests.plugins.samples import Pad, PadCreator, at, fields

SECONDS = 60  # for one case
STRIP = 4096  # bytes around every tensor that must not change
# Fields that are changed more often.
MATTERS = ("graph", "graph", "graph", "bindings", "symbols", "profiles", "requirements", "refit")
OURS = ("AR806", "AR807", "AR808")  # codes of internal errors


class Log(trt.ILogger):
    """Records errors."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        if severity <= trt.Logger.ERROR:
            self.lines.append(msg)


def chain(net):
    x = net.add_input("x", trt.float32, (-1, 2, -1))
    one = net.add_constant((1, 2, 1), np.float32([2, 3])).get_output(0)
    y = net.add_normalization(x, one, one, 0b110).get_output(0)
    resize = net.add_resize(y)
    resize.resize_mode = trt.InterpolationMode.LINEAR
    resize.scales = (1, 1, 1.5)
    return {"x": ((1, 2, 1), (2, 2, 5), (3, 2, 9))}, {}, [resize.get_output(0)]


def shuffle(net):
    x, n = net.add_input("x", trt.int8, (2, -1)), net.add_input("n", trt.int32, (2,))
    layer = net.add_shuffle(x)
    layer.set_input(1, n)
    sizes = net.add_shape(layer.get_output(0)).get_output(0)
    return {"x": ((2, 1), (2, 6), (2, 9))}, {"n": ((1, 1), (4, 3), (18, 18))}, [layer.get_output(0), sizes]


def constants(net):
    data = np.arange(40, dtype=np.float32)
    table = net.add_constant((5, 8), data).get_output(0)
    x = net.add_input("x", trt.float16, (5, 8))
    y = net.add_elementwise(net.add_cast(x, trt.float32).get_output(0), table, trt.ElementWiseOperation.PROD)
    part = net.add_slice(y.get_output(0), (1, 2), (3, 3), (1, 2)).get_output(0)
    total = net.add_reduce(y.get_output(0), trt.ReduceOperation.MAX, 0b01, False).get_output(0)
    return {}, {}, [part, total]


class Careful(Pad):
    """Touches all memory that it receives, and computes the function of its fields if the sizes fit these."""

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        at(inputs[0], input_desc[0]).copy()
        at(outputs[0], output_desc[0])[...] = 0
        rows, columns = np.subtract(output_desc[0].dims[-2:], input_desc[0].dims[-2:])
        if [columns, rows] != [sum(self.pads[:2]), sum(self.pads[2:4])] or min(self.pads) < 0:
            raise ValueError("sizes and fields differ")
        Pad.enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream)

    def clone(self):
        instance = Careful()
        instance.__dict__.update(self.__dict__)
        return instance


class CarefulCreator(PadCreator):
    def create_plugin(self, name, fc, phase):
        return Careful(fc, phase)


def called(net):
    """Two calls of one plug-in, which has shape expressions and fields."""
    x = net.add_input("x", trt.float32, (1, -1, 3))
    y = net.add_plugin_v3([x], [], Careful(fields((0, 1, 0, 2)))).get_output(0)
    y = net.add_unary(y, trt.UnaryOperation.NEG).get_output(0)
    y = net.add_plugin_v3([y], [], Careful(fields())).get_output(0)
    return {"x": ((1, 1, 3), (1, 4, 3), (1, 9, 3))}, {}, [y]


def refittable(net):
    """Plain weights, folded weights, and quantized weights."""
    x, rng = net.add_input("x", trt.float32, (2, 6)), np.random.default_rng(3)
    w, b, s = (rng.standard_normal(n).astype(np.float32) for n in (30, 5, 5))
    product = net.add_matrix_multiply(
        x, trt.MatrixOperation.NONE, net.add_constant((6, 5), w).get_output(0), trt.MatrixOperation.NONE
    )
    rows = net.add_shuffle(product.get_output(0))
    rows.reshape_dims = (2, 5, 1, 1)
    y = net.add_scale(rows.get_output(0), trt.ScaleMode.CHANNEL, b, np.abs(s)).get_output(0)
    half = net.add_cast(net.add_constant((1, 5, 1, 1), s).get_output(0), trt.float16).get_output(0)
    y = net.add_elementwise(net.add_cast(y, trt.float16).get_output(0), half, trt.ElementWiseOperation.SUM)
    return {}, {}, [y.get_output(0)]


FLAGS = trt.BuilderFlag
NETWORKS = (
    (chain, ()),
    (shuffle, ()),
    (constants, ()),
    (called, ()),
    (refittable, (FLAGS.REFIT,)),
    (refittable, (FLAGS.REFIT, FLAGS.STRIP_PLAN)),
    (refittable, (FLAGS.STRIP_PLAN,)),
)


def plan(describe, flags):
    """The unchanged plan of a network."""
    builder = trt.Builder(trt.Logger())
    net, config = builder.create_network(), builder.create_builder_config()
    for flag in flags:
        config.set_flag(flag)
    shapes, values, outputs = describe(net)
    for tensor in outputs:
        mark = net.mark_output_for_shapes if tensor.dtype is trt.int64 else net.mark_output
        mark(tensor)
    profile = builder.create_optimization_profile()
    for name, limits in shapes.items():
        profile.set_shape(name, *limits)
    for name, limits in values.items():
        profile.set_shape_input(name, *limits)
    config.add_optimization_profile(profile)
    with trt.strict():
        return bytes(builder.build_serialized_network(net, config))


# ---- changes ------------------------------------------------------------------------------------------


def change_bytes(data, rng):
    """Some bytes set, cut out, doubled or cut off."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, length = rng.randrange(len(out) + 1), rng.randrange(1, 40)
        match rng.randrange(5):
            case 0 | 1:
                out[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                del out[at : at + length]
            case 3:
                out[at:at] = out[at : at + length]
            case 4:
                del out[at + 1 :]
    return bytes(out)


def change_text(text, rng):
    """Some characters, or a number, or a word replaced by another one of the text."""
    if not text:
        return rng.choice(("x", "-1", "\0"))
    at = rng.randrange(len(text))
    words = text.split(" ")
    match rng.randrange(5):
        case 0:
            return text[:at] + rng.choice("0123456789-x.,()*# \n") + text[at + 1 :]
        case 1:
            digits = [i for i, c in enumerate(text) if c.isdigit()] or [at]
            i = rng.choice(digits)
            return text[:i] + rng.choice(("0", "9", "99", "1000000", "-1", "")) + text[i + 1 :]
        case 2:
            words[rng.randrange(len(words))] = rng.choice(words)
            return " ".join(words)
        case 3:
            lines = text.split("\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
            return "\n".join(lines)
    return text[:at] + text[at + rng.randrange(1, 9) :]


def change_value(value, rng):
    """A JSON value, changed somewhere inside."""
    match value:
        case dict() if value:
            key = rng.choice(list(value))
            return {**value, key: change_value(value[key], rng)}
        case list() if value and rng.random() < 0.8:
            i = rng.randrange(len(value))
            return [*value[:i], change_value(value[i], rng), *value[i + 1 :]]
        case list():
            return rng.choice(([], value + value, value[1:], value[::-1], [[]], None))
        case bool():
            return not value
        case int():
            return rng.choice((0, 1, -1, value + 1, value - 1, value * 2, 1 << 31, 1 << 62, 1 << 70))
        case str():
            return change_text(value, rng)
    return rng.choice((None, 0, "", [], {}, True, 1.5))


def change_sealed(data, rng):
    """A change of the header or the constants with valid checksums."""
    length, start = struct.unpack_from("<QQ", data, 16)
    header, weights = json.loads(data[128 : 128 + length]), bytearray(data[start:])
    if weights and rng.random() < 0.2:
        weights[rng.randrange(len(weights))] ^= 1 << rng.randrange(8)
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            field = rng.choice([*header, *(f for f in MATTERS if f in header)])
            header[field] = change_value(header[field], rng)
    if rng.random() < 0.9:
        header["checksums"] = checksums(header, weights)
    return seal(json.dumps(header).encode(errors="surrogatepass"), bytes(weights))


def checksums(header, weights):
    """The checksums of the constants that the header lists; unchanged if the header is invalid, or if the
    plan is stripped of the constants."""
    stated, sums, at = header.get("checksums"), [], 0
    try:
        if len(header.get("refit") or ()) == 5 and header["refit"][4]:
            return stated
        for _, dtype, count in header["blobs"]:
            size = storage_bytes(getattr(trt, dtype), count)
            sums.append(hashlib.sha256(weights[at : at + size]).hexdigest())
            at = -(-(at + size) // 64) * 64
    except (AttributeError, TypeError, ValueError, KeyError, OverflowError):
        return stated
    return sums


def seal(header, weights):
    """A plan file of these parts."""
    start = -(-(128 + len(header)) // 64) * 64
    fields = (len(header), start, len(weights), start + len(weights))
    preamble = b"\x89AnyRT\r\n" + struct.pack("<IIQQQQ", FORMAT, 0, *fields) + bytes(16)
    body = preamble + hashlib.sha256(preamble + header).digest() + bytes(32) + header
    return body + bytes(start - len(body)) + weights


# ---- trying -------------------------------------------------------------------------------------------


def run(engine, log, rng):
    """One inference at a corner of the first profile, with guard strips around every tensor."""
    context = engine.create_execution_context()
    if context is None:
        return []
    corner, blocks = rng.randrange(3), {}
    for name in engine:
        if engine.get_tensor_mode(name) is trt.TensorIOMode.INPUT:
            context.set_input_shape(name, engine.get_tensor_profile_shape(name, 0)[corner])
    for name in engine:
        if engine.is_shape_inference_io(name) and engine.get_tensor_mode(name) is trt.TensorIOMode.INPUT:
            numbers = engine.get_tensor_profile_values(0, name)
            dtype = trt.nptype(engine.get_tensor_dtype(name))
            blocks[name] = block(np.int64(numbers[corner] if numbers else [2, 3]).astype(dtype).tobytes())
            context.set_tensor_address(name, address(blocks[name]))
    for name in engine:
        shape = context.get_tensor_shape(name)
        if name not in blocks and shape.rank >= 0 and min(shape, default=0) >= 0:
            size = storage_bytes(engine.get_tensor_dtype(name), trt.volume(shape))
            if size < 1 << 24:
                blocks[name] = block(bytes(size))
                context.set_tensor_address(name, address(blocks[name]))
    with contextlib.suppress(Refused):
        context.infer_shapes()
    context.execute_async_v3(0)
    return [f"written around {n}" for n, b in blocks.items() if b[:STRIP].any() or b[-STRIP:].any()]


def refit(engine, log, rng):
    """Set all weights that the engine needs; occasionally only some, or some in other memory."""
    if not engine.refittable:
        return False
    refitter, arrays = trt.Refitter(engine, log), []
    for record in refitter._weights:
        if record.places and record.count < 1 << 20 and rng.random() < 0.9:
            (layer, role), of = record.places[0], rng.choice((np.zeros, np.ones))
            arrays.append(of(record.count, numpy_dtype(record.dtype)))
            weights = trt.Weights(record.dtype, arrays[-1].ctypes.data, record.count)
            refitter.set_weights(layer, trt.WeightsRole.__members__.get(role, trt.WeightsRole.BIAS), weights)
    return refitter.refit_cuda_engine()


def block(content):
    return np.frombuffer(bytes(STRIP) + content + bytes(STRIP), np.uint8).copy()


def address(memory):
    return memory.ctypes.data + STRIP


def wrong(data, rng):
    """The failure of a plan."""
    log = Log()
    engine = trt.Runtime(log).deserialize_cuda_engine(data)
    problems = [] if engine is not None or log.lines else ["refused without a word"]
    if engine is not None:
        problems += run(engine, log, rng)
        problems += run(engine, log, rng) if refit(engine, log, rng) else []
    messages = [
        line for line in log.lines if not line.startswith("Traceback")
    ]  # of a plug-in: its error follows
    return problems + [line for line in messages if line[1:6] in OURS or line[1:3] != "AR"]


def main(first, last):
    trt.get_plugin_registry().register_creator(CarefulCreator(), "")
    plans = [plan(*network) for network in NETWORKS]
    for original in plans:  # so that changes cause the rejection, not the way in which they are written
        header, start = struct.unpack_from("<QQ", original, 16)
        assert seal(original[128 : 128 + header], original[start:]) == original
        assert trt.Runtime(Log()).deserialize_cuda_engine(original) is not None
    for case in range(first, last):
        rng = random.Random(case)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        print(case, file=sys.stderr, flush=True)
        original = rng.choice(plans)
        data = change_sealed(original, rng) if case % 2 else change_bytes(original, rng)
        problems = wrong(data, rng)
        if problems:
            print(f"case {case}: {problems}", flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
