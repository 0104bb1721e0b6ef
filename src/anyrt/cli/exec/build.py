"""Builds a plan from the model of --onnx, as the options specify."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from anyrt import init_libnvinfer_plugins
from anyrt.api.building.builder import Builder
from anyrt.api.building.config import IBuilderConfig
from anyrt.api.building.timing_cache import ITimingCache
from anyrt.api.edge.interfaces import ILogger
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.run.host_memory import IHostMemory
from anyrt.cli.exec.calib import calibrate
from anyrt.cli.exec.flags import Given
from anyrt.cli.exec.shapes import TYPES, add_profile, set_formats
from anyrt.core.enums import (
    BuilderFlag,
    DataType,
    MemoryPoolType,
    NetworkDefinitionCreationFlag,
    ProfilingVerbosity,
    Severity,
)
from anyrt.core.errors import ArgumentError, PlanError
from anyrt.onnx.parser import OnnxParser
from anyrt.onnx.session import refused, take_title
from anyrt.plan.disk import open_regular, write_atomically

FLAGS = {
    "fp16": (BuilderFlag.FP16,),
    "bf16": (BuilderFlag.BF16,),
    "int8": (BuilderFlag.INT8,),
    "fp8": (BuilderFlag.FP8,),
    "int4": (BuilderFlag.INT4,),
    "best": (BuilderFlag.FP16, BuilderFlag.BF16, BuilderFlag.INT8),
    "versionCompatible": (BuilderFlag.VERSION_COMPATIBLE,),
    "excludeLeanRuntime": (BuilderFlag.EXCLUDE_LEAN_RUNTIME,),
    "disableTimingCache": (BuilderFlag.DISABLE_TIMING_CACHE,),
    "refit": (BuilderFlag.REFIT,),
    "stripWeights": (BuilderFlag.STRIP_PLAN,),
    "weightless": (BuilderFlag.STRIP_PLAN,),
    "stripAllWeights": (BuilderFlag.REFIT, BuilderFlag.STRIP_PLAN),
    "allowWeightStreaming": (BuilderFlag.WEIGHT_STREAMING,),
}
CONSTRAINTS = {
    "none": None,
    "prefer": BuilderFlag.PREFER_PRECISION_CONSTRAINTS,
    "obey": BuilderFlag.OBEY_PRECISION_CONSTRAINTS,
}
LIBRARIES = ("plugins", "staticPlugins", "dynamicPlugins", "setPluginsToSerialize")
# trtexec's names, and those of the other pools in its style.
POOLS = {
    "workspace": MemoryPoolType.WORKSPACE,
    "dlaSRAM": MemoryPoolType.DLA_MANAGED_SRAM,
    "dlaLocalDRAM": MemoryPoolType.DLA_LOCAL_DRAM,
    "dlaGlobalDRAM": MemoryPoolType.DLA_GLOBAL_DRAM,
    "tacticSharedMem": MemoryPoolType.TACTIC_SHARED_MEMORY,
    "tacticDRAM": MemoryPoolType.TACTIC_DRAM,
}
UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def plan_of(options: Given, logger: ILogger) -> IHostMemory:
    """The plan of the model of --onnx; also writes the file of --timingCacheFile."""
    builder = Builder(logger)
    strong = options.has("stronglyTyped")
    network = INetworkDefinition(builder, strong << NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    init_libnvinfer_plugins(logger, "")
    parser = OnnxParser(network, logger)
    if not parser.parse_from_file(options.text("onnx")):
        raise refused(parser)
    take_title(network)
    config = builder.create_builder_config()
    _configure(options, config)
    set_formats(options, network)
    _layers(options, network)
    _mark_debug(options, network)
    add_profile(options, network, config)
    calibrate(options, network, config, logger)
    cache = Path(options.text("timingCacheFile")) if options.has("timingCacheFile") else None
    if cache is not None:
        config.set_timing_cache(_timing_cache(cache, logger), False)
    plan = builder.build_serialized_network(network, config)
    if cache is not None:
        write_atomically(cache, [memoryview(config.get_timing_cache().serialize())])
    return plan


def _timing_cache(path: Path, logger: ILogger) -> ITimingCache:
    """The timing cache in a file; a new one if there is no file or, with a warning, if it is not valid."""
    if not path.exists():
        return ITimingCache()
    with open_regular(path, str(path)) as file:
        held = file.read()
    try:
        return ITimingCache(held)
    except PlanError as error:
        logger.log(Severity.WARNING, f"{path}: not a valid timing cache, will be overwritten: {error}")
        return ITimingCache()


def _configure(options: Given, config: IBuilderConfig) -> None:
    for name, flags in FLAGS.items():
        for flag in flags if options.has(name) else ():
            config.set_flag(flag)
    if options.has("noTF32"):
        config.clear_flag(BuilderFlag.TF32)
    constraint = options.text("precisionConstraints", "none")
    if constraint not in CONSTRAINTS:
        raise ArgumentError(
            "AR304", "--precisionConstraints", repr(constraint), "none, prefer or obey", "use one of these"
        )
    if (constrains := CONSTRAINTS[constraint]) is not None:
        config.set_flag(constrains)
    config.plugins_to_serialize = options.each("setPluginsToSerialize")
    config.builder_optimization_level = options.count("builderOptimizationLevel", 3)
    words = {v.name.lower(): v for v in ProfilingVerbosity}
    verbosity = options.text("profilingVerbosity", "layer_names_only").lower()
    if verbosity not in words:
        raise ArgumentError("AR304", "--profilingVerbosity", repr(verbosity), f"one of {', '.join(words)}")
    config.profiling_verbosity = words[verbosity]
    if options.has("maxTactics"):
        config.max_num_tactics = options.count("maxTactics", 0)
    if options.has("workspace"):
        config.set_memory_pool_limit(MemoryPoolType.WORKSPACE, options.count("workspace", 0) << 20)
    for name, size in options.pairs("memPoolSize"):
        _pool(config, name, size)


def _pool(config: IBuilderConfig, name: str, size: str) -> None:
    pools = {p.name.lower().replace("_", ""): p for p in MemoryPoolType}
    pools |= {n.lower(): p for n, p in POOLS.items()}
    text = size.upper().removesuffix("IB")  # 1024MiB is 1024M
    unit = text[-1:]
    try:
        many = float(text[:-1] if unit in UNITS else text)
    except ValueError:
        many = -1.0
    if name.lower() not in pools or many < 0:
        wanted = f"a size for one of {', '.join(POOLS)}"
        do = "write --memPoolSize=workspace:512M"
        raise ArgumentError("AR304", "--memPoolSize", repr(f"{name}:{size}"), wanted, do)
    config.set_memory_pool_limit(pools[name.lower()], int(many * UNITS.get(unit, 1 << 20)))


def _layers(options: Given, network: INetworkDefinition) -> None:
    """Set the types of --layerPrecisions and --layerOutputTypes; `*` in a layer name matches any text."""
    for pattern, word in options.pairs("layerPrecisions"):
        kind = _type("layerPrecisions", word)
        for layer in network:
            if fnmatchcase(layer.name, pattern):
                layer.precision = kind
    for pattern, words in options.pairs("layerOutputTypes"):
        kinds = [_type("layerOutputTypes", w) for w in words.split("+")]
        for layer in network:
            if fnmatchcase(layer.name, pattern):
                for i in range(layer.num_outputs):
                    layer.set_output_type(i, kinds[min(i, len(kinds) - 1)])


def _mark_debug(options: Given, network: INetworkDefinition) -> None:
    """Mark the tensors that --markDebug names."""
    if options.has("markUnfusedTensorsAsDebugTensors"):
        network.mark_unfused_tensors_as_debug_tensors()
    names = [name for name in options.text("markDebug").split(",") if name]
    if not names:
        return
    tensors = {t.name: t for t in map(network.get_input, range(network.num_inputs))}
    tensors |= {t.name: t for layer in network for t in map(layer.get_output, range(layer.num_outputs))}
    for name in names:
        if name not in tensors:
            near = get_close_matches(name, tensors, 3)
            do = f"did you mean {', '.join(near)}?" if near else "`anyrt inspect` lists them"
            raise ArgumentError("AR304", "--markDebug", repr(name), "a tensor of the model", do)
        network.mark_debug(tensors[name])


def libraries(options: Given) -> list[str]:
    """The plug-in libraries of all options."""
    return [path for name in LIBRARIES for path in options.each(name)]


def _type(option: str, word: str) -> DataType:
    if word not in TYPES:
        raise ArgumentError("AR304", f"--{option}", repr(word), f"one of {', '.join(TYPES)}")
    return TYPES[word]
