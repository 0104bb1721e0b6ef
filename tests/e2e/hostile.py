"""Small plans and networks that demand much memory: prints the outcome of each load or build, and the peak of
memory.

`python hostile.py` prints a line of JSON for each case: [name, outcome, megabytes].
"""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np

import anyrt as trt
from anyrt.plan.file import FORMAT

F, HUGE = trt.float32, (1 << 31) - 1
OPERATION = trt.ElementWiseOperation


class Log(trt.ILogger):
    """Records the codes of errors."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.codes = []

    def log(self, severity, msg):
        if severity <= trt.Logger.ERROR:
            self.codes.append(msg[1:6])


LOG = Log()


# ---- memory -------------------------------------------------------------------------------------------


def status(name):
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) >> 10


def measured(name, act):
    """Print the result or the code of the error, and the megabytes by which memory grew at its peak."""
    LOG.codes.clear()
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = status("VmRSS")
    answer = act()
    print(json.dumps([name, "refused" if answer is None else "made", LOG.codes, status("VmHWM") - before]))


# ---- plans --------------------------------------------------------------------------------------------


def built(describe, **shapes):
    """The plan of a network, or None."""
    builder = trt.Builder(LOG)
    net = builder.create_network()
    net.mark_output(describe(net))
    config = builder.create_builder_config()
    if shapes:
        profile = builder.create_optimization_profile()
        for name, limits in shapes.items():
            profile.set_shape(name, *limits)
        config.add_optimization_profile(profile)
    return builder.build_serialized_network(net, config)


def resized(net):
    layer = net.add_resize(net.add_input("x", F, (-1, 2, -1)))
    layer.resize_mode, layer.scales = trt.InterpolationMode.LINEAR, (1, 1, 1.5)
    weights = net.add_constant((1, 2, 1), np.float32([2, 3])).get_output(0)
    return net.add_elementwise(layer.get_output(0), weights, OPERATION.PROD).get_output(0)


def header_of(plan):
    length, start = struct.unpack_from("<QQ", plan, 16)
    return json.loads(plan[128 : 128 + length]), plan[start:]


def sealed(header, weights, **lies):
    """A plan with valid checksums; `lies` replace numbers of its preamble."""
    start = -(-(128 + len(header)) // 64) * 64
    numbers = {"size": len(header), "start": start, "constants": len(weights), "total": start + len(weights)}
    preamble = b"\x89AnyRT\r\n" + struct.pack("<IIQQQQ16x", FORMAT, 0, *{**numbers, **lies}.values())
    body = preamble + hashlib.sha256(preamble + header).digest() + bytes(32) + header
    return body + bytes(start - len(body)) + weights


def plans():
    """Plans modified by an attacker who can compute checksums."""
    plan = bytes(built(resized, x=[(1, 2, 1), (2, 2, 5), (3, 2, 9)]))
    header, weights = header_of(plan)
    yield "as it was", plan

    def changed(graph=None, **fields):
        if graph is not None:
            fields["graph"] = header["graph"].replace(*graph) if isinstance(graph, tuple) else graph
        return sealed(json.dumps({**header, **fields}).encode(), weights)

    def lonely(graph, shape):
        """A plan with only one output."""
        fields = {key: [] for key in ("symbols", "requirements", "profiles", "layers")}
        y = ["y", "int64", shape, False, False, False, "LINEAR", []]
        return changed(graph, bindings=[y], **fields)

    text = json.dumps(header).encode()
    first, second = header["symbols"]
    wide = [first, [*second[:5], HUGE]]
    to_huge = [[["x", False, [1, 2, 1], [2, 2, 5], [3, 2, HUGE]]]]
    yield "header of 2^60 bytes", sealed(text, weights, size=1 << 60)
    yield "constants of 2^60 bytes", sealed(text, weights, constants=1 << 60, total=1 << 60)
    yield "a constant of 2^61 elements", changed(blobs=[["w", "float32", 1 << 61]])
    yield "a profile up to 2^31", changed(("1..9", f"1..{HUGE}"), symbols=wide, profiles=to_huge)
    yield (
        "a rank of 100000",
        changed(bindings=[["x", "int8", ["1"] * 100_000, True, False, False, "LINEAR", []]]),
    )
    yield "JSON 10 million deep", sealed(b"[" * 10_000_000, b"")
    yield "a size 60000 deep", changed(requirements=[["min(" * 60_000, "=", "1", "AR303", "", ""]])
    yield (
        "a product of sums",
        lonely(
            "symbol n 1..9\nv0: INT64["
            + ", ".join(["n + n*n + n*n*n + n*n*n*n + 1"] * 8)
            + "] = Shape(dims=())()",
            ["1"],
        ),
    )
    numbers = f"v0: INT64[{HUGE}] = Iota(shape=({HUGE}), axis=0, dtype=INT64)()\n"
    yield (
        "a sum of 2^31 numbers",
        lonely(numbers + 'v1: INT64[1] = Reduce(fn="sum", axes=(0))(v0)\noutput "y" v1\n', ["1"]),
    )
    squares = "".join(f'v{i + 1}: INT64[1] = Map(fn="mul", dtype=INT64)(v{i}, v{i})\n' for i in range(60))
    yield "60 squares", lonely(f'v0: INT64[1] = Shape(dims=(3))()\n{squares}output "y" v60\n', ["1"])
    yield "4096 threads", changed(settings=[["threads", "4096"]])


def opened(plan):
    """A context of a plan, or None."""
    engine = trt.Runtime(LOG).deserialize_cuda_engine(plan)
    return engine and engine.create_execution_context()


# ---- networks -----------------------------------------------------------------------------------------


def outer_sum(net):
    """Two constants of 32768 elements, added to 2^30."""
    column, row = ((1 << 15, 1), (1, 1 << 15))
    operands = [net.add_constant(s, np.ones(1 << 15, np.float32)).get_output(0) for s in (column, row)]
    return net.add_elementwise(*operands, OPERATION.SUM).get_output(0)


def enlarged(net):
    """A constant of four elements, resized to 2^30."""
    layer = net.add_resize(net.add_constant((1, 1, 2, 2), np.ones(4, np.float32)).get_output(0))
    layer.resize_mode, layer.shape = trt.InterpolationMode.LINEAR, (1, 1, 1 << 15, 1 << 15)
    return layer.get_output(0)


def padded(net):
    """A constant of one element, padded to 2^30."""
    one = net.add_constant((1, 1), np.ones(1, np.float32)).get_output(0)
    layer = net.add_slice(one, (-5, -5), (1 << 15, 1 << 15), (1, 1))
    layer.mode = trt.SampleMode.FILL
    return layer.get_output(0)


def giant(net):
    """Every kind of kernel over 2^31 - 1 elements."""
    x = net.add_input("x", F, (1, 1, HUGE))
    one = net.add_constant((1, 1, 1), np.ones(1, np.float32)).get_output(0)
    layer = net.add_resize(net.add_normalization(x, one, one, 0b100).get_output(0))
    layer.resize_mode, layer.shape = trt.InterpolationMode.CUBIC, (1, 1, HUGE)
    return layer.get_output(0)


def squares(net):
    """A dimension squared twenty times: a million terms."""
    x = net.add_input("x", F, (-1, -1))
    size = net.add_shape(x).get_output(0)
    size = net.add_reduce(size, trt.ReduceOperation.SUM, 1, True).get_output(0)
    for _ in range(20):
        size = net.add_elementwise(size, size, OPERATION.PROD).get_output(0)
    layer = net.add_shuffle(x)
    layer.set_input(1, size)
    return layer.get_output(0)


def halves(net):
    """A resized copy is appended to a tensor, thirty times: the text of its length doubles each time."""
    y = net.add_input("x", F, (1, 1, -1))
    for _ in range(30):
        layer = net.add_resize(y)
        layer.scales = (1, 1, 0.7)
        layer = net.add_concatenation([y, layer.get_output(0)])
        layer.axis, y = 2, layer.get_output(0)
    return y


NETWORKS = {
    "an outer sum of constants": (outer_sum, {}),
    "a constant resized": (enlarged, {}),
    "a constant padded": (padded, {}),
    "giant tensors": (giant, {}),
    "a size squared 20 times": (squares, {"x": [(1, 1), (2, 2), (3, 3)]}),
    "a length extended 30 times": (halves, {"x": [(1, 1, 9), (1, 1, 9), (1, 1, 99)]}),
}


if __name__ == "__main__":
    opened(next(plans())[1])  # so that modules loaded only once do not count
    for name, plan in plans():
        measured(name, lambda plan=plan: opened(plan))
    for name, (describe, shapes) in NETWORKS.items():
        measured(name, lambda describe=describe, shapes=shapes: built(describe, **shapes))
