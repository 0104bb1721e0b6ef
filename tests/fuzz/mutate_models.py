"""Parse and build ONNX models with random changes: `python mutate_models.py FIRST LAST`.

Case k is deterministic: one of the models of `models.py` with bytes or fields changed. Prints the cases with
an outcome other than a result or errors with codes, and those that take too much time or memory; a case that
crashes the process is the last one on stderr.
"""

import contextlib
import faulthandler
import os
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from google.protobuf.message import EncodeError
from models import DATA, MODELS
from mutate_calls import Log
from mutate_plans import change_bytes
from onnx import ModelProto

import anyrt as trt

SECONDS = 10  # for one case, on a busy machine
HANGS = 60  # seconds after which the process exits with a trace
MEMORY = 1 << 30  # bytes that a case may take beyond those of the first one
BUILT = 8  # every eighth parsed network is built
OURS = ("AR806", "AR807", "AR808")  # codes of internal errors
NUMBERS = (0, 1, -1, 2, 3, 5, 7, -2, 64, 1 << 20, 1 << 31, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63))
REALS = (0.0, -1.0, 0.5, 1e30, -1e-30, float("nan"), float("inf"), -float("inf"))
TEXTS = (
    b"",
    b"x",
    b"NOTSET",
    b"linear",
    b"\xff\xfe",
    b"a" * 5000,
    b"../x",
    b"/etc/passwd",
    b"\0",
    b"ij,jk->ik",
)


# ---- changes ------------------------------------------------------------------------------------------


def messages(message):
    """A message and all messages inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from messages(inner)


def change_field(message, names, rng):
    """A field of a message set, cleared, doubled, or reordered."""
    present = [f for f, _ in message.ListFields()]
    field = rng.choice(present if present and rng.random() < 0.8 else list(message.DESCRIPTOR.fields))
    if field.is_repeated:
        change_list(getattr(message, field.name), field, names, rng)
    elif field.message_type is not None:
        if rng.random() < 0.5:
            message.ClearField(field.name)
        else:
            getattr(message, field.name).SetInParent()
    else:
        with contextlib.suppress(ValueError):  # not a member of the enumeration
            setattr(message, field.name, other(field, getattr(message, field.name), names, rng))


def change_list(values, field, names, rng):
    if not values:
        if field.message_type is not None:
            values.add()
        else:
            values.append(other(field, None, names, rng))
        return
    i, j = rng.randrange(len(values)), rng.randrange(len(values))
    match rng.randrange(5):
        case 0:
            del values[i]
        case 1:
            values.append(values[i])
        case 2:
            kept = list(values)
            kept[i], kept[j] = kept[j], kept[i]
            del values[:]
            values.extend(kept)
        case 3:
            del values[i:]
        case 4 if field.message_type is None:
            values[i] = other(field, values[i], names, rng)
        case _:
            change_field(values[i], names, rng)


def other(field, old, names, rng):
    """Another value of a field's type."""
    match field.cpp_type:
        case field.CPPTYPE_STRING if field.type == field.TYPE_BYTES:
            return rng.choice((*TEXTS, (old or b"")[:-1], (old or b"") * 2))
        case field.CPPTYPE_STRING:
            return (
                rng.choice(names) if rng.random() < 0.8 else rng.choice(("", "x" * 5000, "a/b", "../x", "\0"))
            )
        case field.CPPTYPE_FLOAT | field.CPPTYPE_DOUBLE:
            return rng.choice(REALS)
        case field.CPPTYPE_ENUM:
            return rng.choice(field.enum_type.values).number
    number = rng.choice((*NUMBERS, (old or 0) + 1, (old or 0) - 1))
    most = 63 if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 31
    low = 0 if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64) else -(1 << most)
    return min(max(number, low), (1 << most) - 1)


def texts(message):
    """The names in a model: of tensors, operators and attributes."""
    results = {""}
    for inner in messages(message):
        for field, value in inner.ListFields():
            if field.cpp_type == field.CPPTYPE_STRING and field.type != field.TYPE_BYTES:
                results.update(value if field.is_repeated else [value])
    return sorted(results)


def changed(data, rng):
    """The bytes of the model with an error in it."""
    if rng.random() < 0.25:
        return change_bytes(data, rng)
    model = ModelProto.FromString(data)
    names = texts(model)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        change_field(rng.choice(list(messages(model))), names, rng)
    with contextlib.suppress(EncodeError, ValueError):
        return model.SerializeToString()
    return data


# ---- trying -------------------------------------------------------------------------------------------


def parsed(data, path, log):
    """The network with its builder, None if the parser rejects the model; and the failure."""
    builder = trt.Builder(log)
    network = builder.create_network()
    parser = trt.OnnxParser(network, log)
    good = parser.parse(data, path)
    problems = [] if good or parser.num_errors else ["refused without a word"]
    problems += [] if good or log.lines else ["refused without a line in the log"]
    for i in range(parser.num_errors):
        problems += [] if str(parser.get_error(i).desc())[1:3] == "AR" else [str(parser.get_error(i))]
    return (builder, network) if good else None, problems


def wrong(data, path, build):
    """The failure of a model."""
    log, problems = Log(), []
    try:
        result, problems = parsed(data, path, log)
        if result is not None and build:
            builder, network = result
            config = builder.create_builder_config()
            config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 28)
            plan = builder.build_serialized_network(network, config)
            problems += [] if plan is not None or log.lines else ["not built, without a word"]
    except Exception as error:
        problems.append(f"{type(error).__name__}: {error}")
    return problems + [line for line in log.lines if line[1:6] in OURS or line[1:3] != "AR"]


def peak():
    """The peak memory of the process since the last call, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    result = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return result


def main(first, last):
    warnings.simplefilter("ignore")  # directories that cannot be written
    folder = tempfile.mkdtemp()
    (Path(folder) / DATA).write_bytes(bytes(range(256)) * 4)
    path = os.path.join(folder, "model.onnx")
    originals = [make().SerializeToString() for make in MODELS]
    for original in originals:  # modules loaded at first use belong to no case
        problems = wrong(original, path, True)
        assert not problems, problems
    base = peak()
    for case in range(first, last):
        rng = random.Random(case)
        faulthandler.dump_traceback_later(HANGS, exit=True)
        print(case, file=sys.stderr, flush=True)
        which = rng.randrange(len(originals))
        data = changed(originals[which], rng)
        start = time.process_time()
        problems = wrong(data, path, case % BUILT == 0)
        if (took := time.process_time() - start) > SECONDS:
            problems.append(f"{took:.0f} s")
        if (more := peak() - base) > MEMORY:
            problems.append(f"{more >> 20} MB")
        if problems:
            print(f"case {case} ({MODELS[which].__name__}): {problems}", flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
