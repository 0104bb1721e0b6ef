"""The options, as trtexec spells them: `--name=value`, and `--name` for switches.

>>> read(["--onnx=m.onnx", "--fp16"]).text("onnx")
'm.onnx'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from anyrt.core.errors import ArgumentError, NotSupportedError

VALUE: Final = "value"
SWITCH: Final = "switch"
EITHER: Final = "either"  # a switch that may have a value


@dataclass(frozen=True, slots=True)
class Flag:
    """An option. why: why it changes nothing here, or (later) what is not here yet."""

    kind: str
    help: str
    why: str = ""
    later: bool = False


def _flags(kind: str, why: str = "", later: bool = False, **helps: str) -> dict[str, Flag]:
    return {name: Flag(kind, text, why, later) for name, text in helps.items()}


GPU: Final = "there is no graphics processor and no copy to one"
LATER: Final = "that is not here yet"
FLAGS: Final[dict[str, Flag]] = {
    **_flags(
        VALUE,
        onnx="an ONNX model",
        loadEngine="a plan, instead of a model",
        saveEngine="write the plan to this file",
        minShapes="least shapes: x:1x3x224x224,y:1x8",
        optShapes="best shapes",
        maxShapes="greatest shapes",
        shapes="the shapes to run with; also the range, where no other is given",
        inputIOFormats="type and format of each input: fp32:chw,fp16:hwc8",
        outputIOFormats="type and format of each output",
        memPoolSize="workspace:MiB, or workspace:16G",
        profilingVerbosity="layer_names_only, detailed or none",
        builderOptimizationLevel="0 to 5",
        timingCacheFile="read measurements from this file, and add to it",
        layerPrecisions="layer:fp16,*:fp32",
        layerOutputTypes="layer:fp32+fp16",
        precisionConstraints="none, prefer or obey",
        maxTactics="most variants to measure",
        calib="a calibration cache for int8",
        calibProfile="the profile whose optimal shapes calibration has (0)",
        minShapesCalib="least shapes of a profile for calibration",
        optShapesCalib="the shapes that calibration has",
        maxShapesCalib="greatest shapes of a profile for calibration",
        loadInputs="values of inputs: x:file.npy,y:file.raw",
        iterations="at least so many runs (10)",
        warmUp="milliseconds before measuring (200)",
        duration="at least so many seconds (3)",
        sleepTime="milliseconds between runs",
        idleTime="milliseconds between runs",
        infStreams="contexts that run at the same time (1)",
        useProfile="which optimisation profile to run with",
        avgRuns="runs in a printed average (10)",
        percentile="the percentiles to print: 90,95,99",
        exportTimes="write the times of each run as JSON",
        exportOutput="write the outputs as JSON",
        exportProfile="write the times of layers as JSON",
        exportLayerInfo="write the layers as JSON",
        workspace="workspace in MiB, as TensorRT 8 spelt it",
    ),
    **_flags(
        SWITCH,
        fp16="allow float16",
        refit="weights of the engine may change",
        stripWeights="a plan without the weights that a refit gives; with --skipInference",
        bf16="allow bfloat16",
        int8="allow int8",
        fp8="allow fp8",
        int4="allow int4",
        best="allow every precision",
        stronglyTyped="types follow from the model",
        noTF32="no TF32",
        skipInference="build only",
        buildOnly="build only, as TensorRT 8 spelt it",
        verbose="print everything",
        dumpProfile="print the times of layers",
        dumpLayerInfo="print the layers",
        dumpOutput="print the outputs",
        dumpRawBindingsToFile="write each output to a file of its bytes",
        dumpOptimizationProfile="print the optimisation profiles",
        threads="a thread for each context",
        getPlanVersionOnly="print the version of a plan",
        versionCompatible="kept by the configuration",
        excludeLeanRuntime="kept by the configuration",
        disableTimingCache="no timing cache",
        help="print this",
    ),
    **_flags(
        EITHER,
        why=GPU,
        device="",
        useCudaGraph="",
        noDataTransfers="",
        useManagedMemory="",
        useSpinWait="",
        exposeDMA="",
        persistentCacheRatio="",
        maxAuxStreams="",
        tacticSources="",
        l2LimitForTiling="",
        runtimePlatform="",
        hardwareCompatibilityLevel="",
        allowGPUFallback="",
        consistency="",
        restricted="",
        safe="",
    ),
    **_flags(
        EITHER,
        why="everything is there without it",
        explicitBatch="",
        separateProfileRun="",
        timeDeserialize="",
        tilingOptimizationLevel="",
        avgTiming="",
        previewFeature="",
        allocationStrategy="",
        tempdir="",
        tempfileControls="",
        asyncFileReader="",
        directIO="",
        sparsity="",
        useRuntime="",
        leanDLLPath="",
        remoteAutoTuningConfig="",
        layerDeviceTypes="",
        ignoreParsedPluginLibs="",
        timingCacheMode="",
    ),
    **_flags(
        EITHER,
        why=LATER,
        later=True,
        markDebug="",
        saveDebugTensors="",
        markUnfusedTensorsAsDebugTensors="",
        timeRefit="",
        dumpRefit="",
        stripAllWeights="",
        weightless="",
        allowWeightStreaming="",
        weightStreamingBudget="",
        plugins="",
        staticPlugins="",
        dynamicPlugins="",
        setPluginsToSerialize="",
        useDLACore="",
        buildDLAStandalone="",
        batch="",
        maxBatch="",
        deploy="",
        uff="",
    ),
}


@dataclass(frozen=True, slots=True)
class Given:
    """The options of a command line; `idle`: those that change nothing, each with why."""

    values: dict[str, str] = field(default_factory=dict)
    idle: dict[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether a switch or value was given."""
        return name in self.values

    def text(self, name: str, default: str = "") -> str:
        """A value as it was written."""
        return self.values.get(name, default)

    def number(self, name: str, default: float) -> float:
        """A value that is a number of 0 or more."""
        text = self.values.get(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise ArgumentError("AR304", f"--{name}", repr(text), "a number of 0 or more")
        return value

    def count(self, name: str, default: int) -> int:
        """A value that is an integer of 0 or more."""
        value = self.number(name, default)
        if value != int(value):
            raise ArgumentError("AR304", f"--{name}", repr(self.values[name]), "an integer of 0 or more")
        return int(value)

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """A value of the form `a:x,b:y`; names may hold colons, and quotes around them are dropped."""
        out = []
        for part in filter(None, self.values.get(name, "").split(",")):
            key, colon, value = part.rpartition(":")
            if not (colon and key and value):
                raise ArgumentError("AR304", f"--{name}", repr(part), "NAME:VALUE,NAME:VALUE")
            out.append((key.strip("'\""), value))
        return out


def read(words: Sequence[str]) -> Given:
    """The options of a command line; refuses what is unknown, and what is not here yet, by name."""
    given = Given()
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        name = {"h": "help", "-h": "help", "v": "verbose", "-v": "verbose"}.get(name, name)
        flag = FLAGS.get(name)
        if flag is None:
            near = get_close_matches(name, FLAGS, 1)
            do = f"did you mean --{near[0]}?" if near else "--help lists the options"
            raise ArgumentError("AR304", word, "an unknown option", "an option of trtexec", do)
        if flag.later:
            raise NotSupportedError("AR901", f"--{name}", LATER, "the other options")
        if flag.kind == VALUE and not equals:
            raise ArgumentError("AR304", word, "no value", f"--{name}=…")
        if flag.kind == SWITCH and equals and value not in ("", "1", "true"):
            raise ArgumentError("AR304", word, f"a value, {value!r}", f"--{name} alone")
        given.values[name] = value
        if flag.why:
            given.idle[name] = flag.why
    return given


def usage() -> str:
    """What `--help` prints."""
    lines = ["options, as trtexec has them:"]
    for name, flag in FLAGS.items():
        if flag.help:
            lines.append(f"  --{name}{'=' + '…' if flag.kind == VALUE else '':<3} {flag.help}")
    idle = [f"--{n}" for n, f in FLAGS.items() if f.why and not f.later]
    later = [f"--{n}" for n, f in FLAGS.items() if f.later]
    return "\n".join(
        [*lines, "accepted, without effect: " + " ".join(idle), "not here yet: " + " ".join(later)]
    )
