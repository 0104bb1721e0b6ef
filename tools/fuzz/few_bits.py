"""Products with weights of 2, 4 and 8 bits: code for four machines compared with the interpreter, with a
protected page after each buffer that kernels read or write.

wrong(17)                                       # "" if the case of this seed is right
differs(Case("avx2", 4, 32, 3, "codes", True, 4), 17)
python -m tools.fuzz.few_bits < cases.json      # these, a line each; prints the differences

Weights, their scales and zero points end with a cache line, inputs and outputs with their last element: an
access past the end crashes this process.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

import anyrt
import anyrt.passes  # their modules define how many codes are few
from anyrt.backends import loader
from anyrt.backends.cpu.processors import Level
from anyrt.compiler import driver
from anyrt.compiler.bounds import differing
from anyrt.compiler.native import Lowered
from anyrt.compiler.progress import Progress
from anyrt.compiler.settled import settled
from anyrt.compiler.trial import GUARD, Trial, load
from anyrt.compiler.verify import Mismatch, random_inputs, reference, verify
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.plan import abi
from anyrt.schedule.ports import port_names
from tests import emulated
from tools.replays.lowering import request_of

PAGE, LINE = mmap.PAGESIZE, abi.ALIGNMENT
MACHINES = ("avx512", "avx2", "sse2", "neon")
BITS, ROWS, LEVELS, ZEROS = (2, 4, 8), (1, 2, 3, 16, 17), (0, 4), (None, "codes", "numbers")
BLOCKS = (16, 32, 64, 128, 256, 0)  # 0: a scale for each row of weights
NARROW = frozenset(t for t in DataType if is_float(t)) - {DataType.FLOAT}
CODES = {2: ml_dtypes.int2, 4: ml_dtypes.int4, 8: np.int8}
libc = ctypes.CDLL(None)


class Case(NamedTuple):
    """A machine and the form of weights; `turned`: columns in another order than that of blocks."""

    machine: str
    bits: int
    size: int
    rows: int
    zeros: str | None
    turned: bool
    level: int


def cases(machines: Sequence[str] = MACHINES) -> list[Case]:
    """All existing cases: weights with one scale per row are plain."""
    forms = product(machines, BITS, BLOCKS, ROWS, ZEROS, (False, True), LEVELS)
    result = (Case(*form) for form in forms)
    return [c for c in result if c.size or not (c.turned or c.level or c.zeros == "numbers")]


def wrong(seed: int) -> str:
    """How the kernels of a seed differ; "" if they do not."""
    here = MACHINES if emulated.unicorn else MACHINES[:-1]
    return differs(random.Random(seed).choice(cases(here)), seed)


def differs(case: Case, seed: int) -> str:
    """How a case differs from the interpreter, kernel by kernel and as a whole; "" if it does not."""
    with _on(case.machine), _all_stay_codes():
        target, device = loader.target(), loader.device()
        lowered, closed = _apart(_model(case, np.random.default_rng(seed)), target, device)
        for actual in verify(lowered, target, device, [{}], seed=seed):
            if not _is_endless(case, actual):
                return f"{case}, seed {seed}: {actual.kernel}: {actual.finding}"
        trial = Trial(load(lowered, target, device), {})
        feeds = random_inputs(lowered.graph, {}, seed)
        buffers, ports = {b.name: b for b in lowered.module.places}, port_names(lowered.graph)
        trial.write(buffers[ports[0]], feeds["x"], lowered.graph.inputs[0][1].dtype)
        with _guarded(trial, closed):
            trial.run()
        y = lowered.graph.outputs[0][1]
        got = trial.read(buffers[ports[1]], y.dtype, tuple(d for d in y.shape if isinstance(d, int)))
        expected = reference(y, {lowered.graph.inputs[0][1]: feeds["x"]}, {}, NARROW)
        count = int(differing(got, expected, y.dtype).sum())
        return f"{case}, seed {seed}: {count} elements of {got.size} differ" if count else ""


def _is_endless(case: Case, result: Mismatch) -> bool:
    """Whether a result may be infinite instead of NaN for int8 rows: an infinite scale multiplies the block's
    sum, not its products, which might include infinities of both signs."""
    at = result.element
    return case.level == 4 and at is not None and "inf" in at.got and at.expected.startswith("nan")


def _on(machine: str) -> AbstractContextManager[Any]:  # Any: the type of the context does not matter
    """Replace the processor of this machine by this one."""
    if machine == "neon":
        return emulated.emulated(emulated.SDOT)
    return (
        patch.dict("os.environ", {"ANYRT_CPU": Level(machine).value})
        if machine != "avx512"
        else nullcontext()
    )


@contextmanager
def _all_stay_codes() -> Iterator[None]:
    """Keep codes for any number of weights; by default, few weights become numbers."""
    fold, split = (sys.modules[f"anyrt.passes.{name}"] for name in ("fold_constants", "split_codes"))
    with patch.object(fold, "SMALL", 1), patch.object(split, "SMALL", 1):
        yield


# ---- models ---------------------------------------------------------------------------------------


def _model(case: Case, dice: np.random.Generator) -> ModelProto:
    """One product, of odd sizes where blocks permit them."""
    results = int(dice.choice([16, 32, 64, 96])) if dice.random() < 0.3 else 2 * int(dice.integers(1, 40)) + 1
    terms = int(dice.integers(max(8, case.size), 2 * case.size + 150)) | 1
    nodes, weights = (_in_blocks if case.size else _in_rows)(case, results, terms, dice)
    ends = [
        helper.make_tensor_value_info(name, 1, (case.rows, wide))
        for name, wide in (("x", terms), ("y", results))
    ]
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets)


def _in_blocks(
    case: Case, results: int, terms: int, dice: np.random.Generator
) -> tuple[list[NodeProto], dict[str, Any]]:  # Any: arrays
    """MatMulNBits."""
    blocks = -(-terms // case.size)
    weights: dict[str, Any] = {
        "b": dice.integers(0, 256, (results, blocks, case.size * case.bits // 8)).astype(np.uint8),
        "s": dice.uniform(-0.1, 0.1, results * blocks).astype(np.float32),
    }
    if case.zeros == "codes":
        weights["z"] = dice.integers(0, 256, (results, -(-blocks * case.bits // 8))).astype(np.uint8)
    if case.zeros == "numbers":
        weights["z"] = dice.uniform(0, 1 << case.bits, (results, blocks)).astype(np.float32)
    if case.turned:
        weights["g"] = dice.permutation(np.arange(terms) // case.size).astype(np.int32)
    names = ["x", "b", "s", "z" if "z" in weights else "", *(["g"] if case.turned else [])]
    sizes = {"K": terms, "N": results, "bits": case.bits, "block_size": case.size}
    more = sizes | {"accuracy_level": case.level}
    return [helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **more)], weights


def _in_rows(
    case: Case, results: int, terms: int, dice: np.random.Generator
) -> tuple[list[NodeProto], dict[str, Any]]:  # Any: arrays
    """DequantizeLinear with a scale for each row of the weights. Rows consist of whole words."""
    terms, half = terms | 1, 1 << (case.bits - 1)
    weights: dict[str, Any] = {
        "c": dice.integers(-half, half, (results, terms)).astype(CODES[case.bits]),
        "s": dice.uniform(0.01, 0.1, results).astype(np.float32),
    }
    if case.zeros:
        weights["z"] = dice.integers(-half, half, results).astype(CODES[case.bits])
    real = helper.make_node("DequantizeLinear", [*weights], ["w"], axis=0)
    return [real, helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], weights


# ---- memory ---------------------------------------------------------------------------------------


def _apart(
    model: ModelProto, target: Any, device: Any
) -> tuple[Lowered, list[int]]:  # Any: those of the machine
    """The kernels of a model for the machine, and the positions where a protected page follows a constant."""
    builder = anyrt.Builder(anyrt.Logger())
    network = builder.create_network()
    with anyrt.strict():
        anyrt.OnnxParser(network, builder.logger).parse(model.SerializeToString())
    request = settled(request_of(network, builder.create_builder_config()))
    build = driver._Build(request, Progress("fuzz"), target, device)
    machine = driver.build_machine(target)
    source = driver._Source.of(request, build._optimised(machine), device, build.mixer)
    records, closed, at = [], list[int](), 0
    for r in source.records:
        pages = -(-r.nbytes // PAGE) * PAGE
        records.append(replace(r, offset=at + pages - -(-r.nbytes // LINE) * LINE))
        closed.append(at + pages)
        at += pages + PAGE
    lowered = replace(source, records=tuple(records)).lower(machine, target.strategies)()
    return lowered, closed[:-1]


@dataclass(slots=True)
class _Pages:
    """Memory that ends at a protected page."""

    space: mmap.mmap
    begin: int
    closed: list[int]

    @staticmethod
    def of(nbytes: int) -> _Pages:
        """Allocate this many bytes."""
        size = -(-nbytes // PAGE) * PAGE
        space = mmap.mmap(-1, size + PAGE)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(space))
        built = _Pages(space, begin, [])
        built.close(begin + size)
        return built

    def close(self, page: int) -> None:
        assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0) == 0
        self.closed.append(page)

    def open(self) -> None:
        for page in self.closed:
            libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), mmap.PROT_READ | mmap.PROT_WRITE)


@contextmanager
def _guarded(trial: Trial, closed: Sequence[int]) -> Iterator[None]:
    """All memory of a trial at the end of such pages, with `closed` positions among the constants; the trial
    then owns the content."""
    moved = []
    for block in trial.blocks.values():
        used = block.nbytes - GUARD
        if not used:
            continue
        (word,) = np.flatnonzero(trial.args == block.address)[:1]
        exact = word >= abi.FIRST_BINDING
        room = used if exact else -(-used // LINE) * LINE
        pages = _Pages.of(room)
        to = pages.begin + -(-room // PAGE) * PAGE - room
        ctypes.memmove(to, block.address, used)
        if word == abi.CONSTS:
            for page in closed:
                pages.close(to + page)
        trial.args[word] = to
        moved.append((word, block, pages, to, used))
    yield
    for word, block, pages, to, used in moved:
        pages.open()
        ctypes.memmove(block.address, to, used)
        trial.args[word] = block.address


if __name__ == "__main__":
    for number, line in enumerate(sys.stdin):
        if difference := differs(Case(*json.loads(line)), number):
            print(difference)
