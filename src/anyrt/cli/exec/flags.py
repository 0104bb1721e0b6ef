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
REPEATED: Final = "repeated"  # a value that may be given several times


@dataclass(frozen=True, slots=True)
class Flag:
    """An option. why: why it changes nothing here, or (refused) why it cannot be."""

    kind: str
    help: str
    why: str = ""
    refused: bool = False


def _flags(kind: str, why: str = "", **helps: str) -> dict[str, Flag]:
    return {name: Flag(kind, text, why) for name, text in helps.items()}


def _refused(**reasons: str) -> dict[str, Flag]:
    return {name: Flag(EITHER, "", why, True) for name, why in reasons.items()}


GPU: Final = "there is no graphics processor and no copy to one"
BATCH: Final = "TensorRT 10 has no batch beside the shapes; give it in --shapes"
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
        memPoolSize="workspace:MiB, or workspace:16G; dlaSRAM, tacticSharedMem, …",
        profile="the profile, from 0 on, that the options of shapes behind this one are for",
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
        markDebug="let these tensors be debug tensors: x,y",
        saveDebugTensors="write debug tensors to files of their bytes: x:x.raw,y:y.raw",
        saveAllDebugTensors="write each debug tensor to files: summary,numpy,string,raw",
        weightStreamingBudget="weights that stay in memory: bytes, 50%, -1 (as the machine allows), -2 (all)",
    ),
    **_flags(
        REPEATED,
        plugins="load a library of plug-ins; may be given several times",
        staticPlugins="the same",
        dynamicPlugins="the same",
        setPluginsToSerialize="the same; a plan holds no code, so whoever loads it gives --plugins",
    ),
    **_flags(
        SWITCH,
        fp16="allow float16",
        refit="weights of the engine may change",
        stripWeights="a plan without the weights that a refit gives; it is not run",
        stripAllWeights="--refit and --stripWeights",
        weightless="--stripWeights, as it was called before",
        timeRefit="the time of giving the weights of the model again",
        dumpRefit="print the layers whose weights may change",
        markUnfusedTensorsAsDebugTensors="let tensors that are stored be debug tensors",
        allowWeightStreaming="let --weightStreamingBudget bound the weights in memory",
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
    **_refused(
        useDLACore="this machine has no core of that kind; leave it out, and layers run on the processor",
        buildDLAStandalone="a loadable of a DLA runs on a Jetson alone; leave it out for a plan of here",
        batch=BATCH,
        maxBatch=BATCH,
        deploy="Caffe models went with TensorRT 9; convert it to ONNX, for --onnx",
        uff="UFF models went with TensorRT 9; convert it to ONNX, for --onnx",
    ),
}


@dataclass(frozen=True, slots=True)
class Given:
    """The options of a command line; `idle`: those that change nothing, each with why. `profiles`: those that
    stand behind a --profile=N, by N."""

    values: dict[str, str] = field(default_factory=dict)
    idle: dict[str, str] = field(default_factory=dict)
    profiles: dict[int, dict[str, str]] = field(default_factory=dict)

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

    def each(self, name: str) -> list[str]:
        """The values of an option that may be given several times."""
        return [value for value in self.text(name).split("\n") if value]

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
    """The options of a command line; refuses what is unknown, and what cannot be here, by name."""
    given = Given()
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        name = {"h": "help", "-h": "help", "v": "verbose", "-v": "verbose"}.get(name, name)
        flag = FLAGS.get(name)
        if flag is None:
            near = get_close_matches(name, FLAGS, 1)
            do = f"did you mean --{near[0]}?" if near else "--help lists the options"
            raise ArgumentError("AR304", word, "an unknown option", "an option of trtexec", do)
        if flag.refused:
            reason, _, do = flag.why.partition("; ")
            raise NotSupportedError("AR901", f"--{name}", reason, "the other options", do)
        if flag.kind in (VALUE, REPEATED) and not equals:
            raise ArgumentError("AR304", word, "no value", f"--{name}=…")
        if flag.kind == SWITCH and equals and value not in ("", "1", "true"):
            raise ArgumentError("AR304", word, f"a value, {value!r}", f"--{name} alone")
        if name in ("minShapes", "optShapes", "maxShapes") and given.has("profile"):
            given.profiles.setdefault(given.count("profile", 0), {})[name] = value
            continue
        before = f"{given.values[name]}\n" if flag.kind == REPEATED and name in given.values else ""
        given.values[name] = before + value
        if flag.why:
            given.idle[name] = flag.why
    return given


def usage() -> str:
    """What `--help` prints."""
    lines = ["options, as trtexec has them:"]
    for name, flag in FLAGS.items():
        if flag.help:
            lines.append(f"  --{name}{'=' + '…' if flag.kind in (VALUE, REPEATED) else '':<3} {flag.help}")
    idle = [f"--{n}" for n, f in FLAGS.items() if f.why and not f.refused]
    refused = [f"--{n}" for n, f in FLAGS.items() if f.refused]
    return "\n".join([*lines, "accepted, without effect: " + " ".join(idle), "refused: " + " ".join(refused)])
