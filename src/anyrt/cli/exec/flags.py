"""The options, as trtexec spells them: `--name=value`, and `--name` for switches.

>>> read(["--onnx=m.onnx", "--fp16"]).text("onnx")
'm.onnx'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from anyrt.cli.show import folded
from anyrt.core.errors import ArgumentError, NotSupportedError

VALUE: Final = "value"
SWITCH: Final = "switch"
EITHER: Final = "either"  # a switch with an optional value
REPEATED: Final = "repeated"  # an option with a value that may be repeated

WIDTH = 80  # columns of --help


@dataclass(frozen=True, slots=True)
class Flag:
    """An option. why: the reason that it has no effect or, if `refused`, is not supported."""

    kind: str
    help: str
    why: str = ""
    refused: bool = False


def _flags(kind: str, why: str = "", **helps: str) -> dict[str, Flag]:
    return {name: Flag(kind, text, why) for name, text in helps.items()}


def _refused(**reasons: str) -> dict[str, Flag]:
    return {name: Flag(EITHER, "", why, True) for name, why in reasons.items()}


GPU: Final = "AnyRT runs on the CPU and copies nothing to a device"
BATCH: Final = "TensorRT 10 has no implicit batch; set the batch dimension in --shapes"
FLAGS: Final[dict[str, Flag]] = {
    **_flags(
        VALUE,
        onnx="ONNX model to build",
        loadEngine="plan to load instead of a model",
        saveEngine="write the plan to this file",
        minShapes="minimum shapes of the profile: x:1x3x224x224,y:1x8",
        optShapes="optimum shapes of the profile",
        maxShapes="maximum shapes of the profile",
        shapes="shapes for inference; also the profile, if no other is set",
        inputIOFormats="types and formats of the inputs: fp32:chw,fp16:hwc8",
        outputIOFormats="types and formats of the outputs",
        memPoolSize="sizes of memory pools in MiB or with a unit: workspace:16G,dlaSRAM:1",
        profile="index of the profile that the following shape options define",
        profilingVerbosity="detail of layer information: layer_names_only (default), detailed or none",
        builderOptimizationLevel="0 (fast build) to 5 (fast engine) (default: 3)",
        timingCacheFile="timing cache to read and update",
        layerPrecisions="precision of layers by name: layer:fp16,*:fp32",
        layerOutputTypes="output types of layers by name: layer:fp32+fp16",
        precisionConstraints="how to apply layer precisions: none (default), prefer or obey",
        maxTactics="maximum number of tactics to measure",
        calib="calibration cache for int8",
        calibProfile="index of the profile whose optimum shapes calibration uses (default: 0)",
        minShapesCalib="minimum shapes of the calibration profile",
        optShapesCalib="optimum shapes of the calibration profile, which calibration uses",
        maxShapesCalib="maximum shapes of the calibration profile",
        loadInputs="files with input values: x:file.npy,y:file.raw",
        iterations="minimum number of inferences to measure (default: 10)",
        warmUp="duration of the warm-up in milliseconds (default: 200)",
        duration="minimum duration of the measurement in seconds (default: 3)",
        sleepTime="pause between inferences in milliseconds",
        idleTime="additional pause between inferences in milliseconds",
        infStreams="number of concurrent execution contexts (default: 1)",
        useProfile="index of the optimization profile for inference",
        avgRuns="number of inferences per printed average (default: 10)",
        percentile="percentiles of the latency to print (default: 90,95,99)",
        exportTimes="write the times of all inferences to this file as JSON",
        exportOutput="write the outputs to this file as JSON",
        exportProfile="write the time of each layer to this file as JSON",
        exportLayerInfo="write layer information to this file as JSON",
        workspace="workspace size in MiB (option of TensorRT 8)",
        markDebug="mark these tensors as debug tensors: x,y",
        saveDebugTensors="write debug tensors to raw files: x:x.raw,y:y.raw",
        saveAllDebugTensors="write all debug tensors in these formats: summary,numpy,string,raw",
        weightStreamingBudget="weights to keep in memory: bytes, 50%, -1 (automatic) or -2 (all)",
    ),
    **_flags(
        REPEATED,
        plugins="plug-in library to load; may be repeated",
        staticPlugins="same as --plugins",
        dynamicPlugins="same as --plugins",
        setPluginsToSerialize="same as --plugins; plans contain no code, so loading one needs --plugins too",
    ),
    **_flags(
        SWITCH,
        fp16="allow float16",
        refit="make the weights refittable",
        stripWeights="leave refittable weights out of the plan; such a plan is not run",
        stripAllWeights="--refit and --stripWeights",
        weightless="older name of --stripWeights",
        timeRefit="measure refitting with the weights of the model",
        dumpRefit="print the refittable layers",
        markUnfusedTensorsAsDebugTensors="mark all tensors that kernels store as debug tensors",
        allowWeightStreaming="build for weight streaming (--weightStreamingBudget)",
        bf16="allow bfloat16",
        int8="allow int8",
        fp8="allow fp8",
        int4="allow int4",
        best="allow every precision",
        stronglyTyped="use the element types of the model",
        noTF32="disable TF32",
        skipInference="build only",
        buildOnly="build only (option of TensorRT 8)",
        verbose="print the verbose log",
        dumpProfile="print the time of each layer",
        dumpLayerInfo="print layer information",
        dumpOutput="print the outputs",
        dumpRawBindingsToFile="write each output to a raw file",
        dumpOptimizationProfile="print the optimization profiles",
        threads="run each context in its own thread",
        getPlanVersionOnly="print the version of the plan",
        versionCompatible="set the builder flag, which has no effect",
        excludeLeanRuntime="set the builder flag, which has no effect",
        disableTimingCache="build without a timing cache",
        json="print the results as JSON, and all other lines to stderr",
        help="print this help",
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
        why="the default behaviour includes it",
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
        useDLACore="the machine has no DLA; remove the option to run on the CPU",
        buildDLAStandalone="AnyRT builds no DLA loadables; remove the option to build a plan for the CPU",
        batch=BATCH,
        maxBatch=BATCH,
        deploy="TensorRT 9 removed Caffe models; convert the model to ONNX and use --onnx",
        uff="TensorRT 9 removed UFF models; convert the model to ONNX and use --onnx",
    ),
}


@dataclass(frozen=True, slots=True)
class Given:
    """The options of a command line. `idle`: those without an effect, each with the reason. `profiles`: those
    that follow a --profile=N, by N."""

    values: dict[str, str] = field(default_factory=dict)
    idle: dict[str, str] = field(default_factory=dict)
    profiles: dict[int, dict[str, str]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the option is set."""
        return name in self.values

    def text(self, name: str, default: str = "") -> str:
        """The text of a value."""
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
            raise ArgumentError(
                "AR304", f"--{name}", repr(text), "a number of 0 or more", f"write --{name}=1"
            )
        return value

    def count(self, name: str, default: int) -> int:
        """A value that is an integer of 0 or more."""
        value = self.number(name, default)
        if value != int(value):
            raise ArgumentError(
                "AR304", f"--{name}", repr(self.values[name]), "an integer of 0 or more", f"write --{name}=1"
            )
        return int(value)

    def each(self, name: str) -> list[str]:
        """The values of an option that may be repeated."""
        return [value for value in self.text(name).split("\n") if value]

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """A value of the form `a:x,b:y`; names may hold colons, and quotes around them are dropped."""
        out = []
        for part in filter(None, self.values.get(name, "").split(",")):
            key, colon, value = part.rpartition(":")
            if not (colon and key and value):
                raise ArgumentError(
                    "AR304", f"--{name}", repr(part), "NAME:VALUE", f"write --{name}=NAME:VALUE,NAME:VALUE"
                )
            out.append((key.strip("'\""), value))
        return out


def read(words: Sequence[str]) -> Given:
    """The options of a command line; raises AR304 for an unknown option and AR901 for an unsupported one."""
    options = Given()
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
            raise NotSupportedError("AR901", f"--{name}", f"an option that is not supported: {reason}", do=do)
        if flag.kind in (VALUE, REPEATED) and not equals:
            raise ArgumentError("AR304", word, "no value", "a value", f"write --{name}=VALUE")
        if flag.kind == SWITCH and equals and value not in ("", "1", "true"):
            raise ArgumentError("AR304", word, f"the value {value!r}", "no value", f"write --{name}")
        if name in ("minShapes", "optShapes", "maxShapes") and options.has("profile"):
            options.profiles.setdefault(options.count("profile", 0), {})[name] = value
            continue
        before = f"{options.values[name]}\n" if flag.kind == REPEATED and name in options.values else ""
        options.values[name] = before + value
        if flag.why:
            options.idle[name] = flag.why
    return options


def usage() -> str:
    """The text of `--help`."""
    lines = ["options of trtexec that have an effect:"]
    for name, flag in FLAGS.items():
        if flag.help:
            lines.append(f"  --{name}{'=' + '…' if flag.kind in (VALUE, REPEATED) else '':<3} {flag.help}")
    idle = [f"--{n}" for n, f in FLAGS.items() if f.why and not f.refused]
    refused = [f"--{n}" for n, f in FLAGS.items() if f.refused]
    lines += [
        "options that are accepted and have no effect: " + " ".join(idle),
        "options that are not supported: " + " ".join(refused),
    ]
    return "\n".join(part for line in lines for part in folded(line, WIDTH))
