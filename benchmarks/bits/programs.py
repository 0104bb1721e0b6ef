"""How each program loads an entry of a row, from a file to a callable."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path

import anyrt as trt
from benchmarks.bits.files import Files, Form, Given
from benchmarks.bits.rows import COMPILED, OPENVINO, Ask, Entry
from benchmarks.engines import empty, engine_of
from benchmarks.models.programs import OURS, PROGRAMS, bound, called
from benchmarks.peers import Way

FLAGS = {
    Ask.BF16: trt.BuilderFlag.BF16, Ask.FP16: trt.BuilderFlag.FP16, Ask.CALIBRATED: trt.BuilderFlag.INT8
}  # fmt: skip
STRONG = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)


class Shown(trt.IInt8EntropyCalibrator2):
    """A calibrator that returns the stored batches."""

    def __init__(self, batches: list[Given]) -> None:
        trt.IInt8EntropyCalibrator2.__init__(self)
        self.batches = iter(batches)
        self.batch: Given | None = None  # kept, as its memory is read later

    def get_batch_size(self) -> int:
        """The number of samples in a batch."""
        return 1

    def get_batch(self, names: list[str]) -> list[int] | None:
        """Addresses of the next batch."""
        self.batch = next(self.batches, None)
        return None if self.batch is None else [self.batch[n].ctypes.data for n in names]

    def read_calibration_cache(self) -> bytes | None:
        return None

    def write_calibration_cache(self, cache: memoryview) -> None:
        """The cache is not stored."""


def plan_of(entry: Entry, files: Files, threads: int) -> bytes:
    """AnyRT's plan of an entry; an unsupported model raises."""
    builder, network, config = empty(threads, STRONG if entry.form is Form.BF16 else 0)
    with trt.strict():
        if entry.ask in FLAGS:
            config.set_flag(FLAGS[entry.ask])
        if entry.ask is Ask.CALIBRATED:
            config.int8_calibrator = Shown(files.batches())
        if entry.ask is Ask.DIRECT:
            config.winograd = "off"
        trt.OnnxParser(network, builder.logger).parse_from_file(str(files.of(entry.form)))
        return bytes(builder.build_serialized_network(network, config))


def load(entry: Entry, files: Files, plan: Path, inputs: Given, threads: int) -> Way:
    """The entry, ready to run; `plan`: AnyRT's plan, which is built already."""
    if entry.program == OURS:
        engine = engine_of(plan)
        return bound(engine, engine.create_execution_context(), inputs)
    program, is_narrow = PROGRAMS[entry.program], entry.ask is Ask.BF16
    module = importlib.import_module(program.module)
    if entry.program == COMPILED:  # with weights and inputs in bfloat16 if the entry allows that
        network = importlib.import_module("benchmarks.bits.networks").network_of(files.model).module
        network = network.bfloat16() if is_narrow else network
        return called(module, network, inputs, threads, partial(module.compile, dynamic=False))
    options = {"precision": "bf16"} if is_narrow and entry.program == OPENVINO else {}
    return program.load(module, files.of(entry.form), inputs, threads, **options)
