"""The configuration of a build."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from anyrt.api.building.algorithms import IAlgorithmSelector
from anyrt.api.building.calibrators import IInt8Calibrator
from anyrt.api.building.flagbits import Flags, check_bits, tell_idle
from anyrt.api.building.profile import IOptimizationProfile
from anyrt.api.building.timing_cache import ITimingCache, entries_of
from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import IProgressMonitor
from anyrt.api.edge.managed import Managed
from anyrt.api.edge.missing import mark_absences
from anyrt.api.edge.oneline import brief, one_line
from anyrt.api.edge.quiet import Channel, boolean, nothing, quiet, wrong_type
from anyrt.api.edge.setting import Setting, changed_settings
from anyrt.api.model.expansion import Expansion
from anyrt.api.model.layer import ILayer
from anyrt.api.model.state import state_of
from anyrt.compiler.request import Settings, Verify, Winograd
from anyrt.core.enums import (
    BuilderFlag,
    DataType,
    DeviceType,
    EngineCapability,
    HardwareCompatibilityLevel,
    MemoryPoolType,
    PreviewFeature,
    ProfilingVerbosity,
    QuantizationFlag,
    RuntimePlatform,
    Severity,
    TacticSource,
    TilingOptimizationLevel,
)
from anyrt.core.errors import AnyrtError, ArgumentError
from anyrt.core.flags import read_flags
from anyrt.core.trt_enum import TrtEnum
from anyrt.core.units import counted
from anyrt.ops._expand import DLA_TYPES, dla_reason

E = TypeVar("E", bound=TrtEnum)
SOURCES = 1 << TacticSource.EDGE_MASK_CONVOLUTIONS | 1 << TacticSource.JIT_CONVOLUTIONS
GIB = 1 << 30
BUILD_FLAGS = frozenset(
    {
        BuilderFlag.EXCESS_PRECISION,
        BuilderFlag.OBEY_PRECISION_CONSTRAINTS,
        BuilderFlag.PREFER_PRECISION_CONSTRAINTS,
        BuilderFlag.FP16,
        BuilderFlag.BF16,
        BuilderFlag.INT8,
        BuilderFlag.DISABLE_TIMING_CACHE,
        BuilderFlag.REJECT_EMPTY_ALGORITHMS,
        BuilderFlag.REFIT,
        BuilderFlag.REFIT_IDENTICAL,
        BuilderFlag.REFIT_INDIVIDUAL,
        BuilderFlag.STRIP_PLAN,
        BuilderFlag.WEIGHT_STREAMING,
    }
)


@fold
class IBuilderConfig(Fixed, Managed):
    """The settings of a build; created by `Builder.create_builder_config`. Only AnyRT has `verify`,
    `checked`, `num_threads` and `winograd`.

    A setting that is "kept" can be read back but has no effect: it concerns hardware or measurements that
    AnyRT does not use.
    """

    __slots__ = (
        "__weakref__",
        "_calibration_profile",
        "_channel",
        "_devices",
        "_plugins",
        "_pools",
        "_previews",
        "_profiles",
        "_settings",
        "_sources",
        "_timing_cache",
    )

    avg_timing_iterations = Setting(int, 1, "Kept: number of runs to average in a measurement.", low=1)
    int8_calibrator = Setting(
        IInt8Calibrator,
        None,
        "Supplies batches to builds with the flag INT8, to determine missing dynamic ranges. Builds ignore it"
        " for networks that are strongly typed, or have Quantize and Dequantize layers.",
    )
    engine_capability = Setting(EngineCapability, EngineCapability.STANDARD, "Kept; engines are STANDARD.")
    flags = Flags(
        BuilderFlag, (BuilderFlag.TF32,), BUILD_FLAGS, "All builder flags, see `set_flag`, as a bit mask."
    )
    default_device_type = Setting(DeviceType, DeviceType.GPU, "Kept: default device of layers.")
    DLA_core = Setting(int, -1, "Kept: DLA core to build for; the machine has none.")
    quantization_flags = Flags(QuantizationFlag, (), (), "Kept: all quantization flags as a bit mask.")
    profile_stream = Setting(int, 0, "Kept: stream for measurements.")
    profiling_verbosity = Setting(
        ProfilingVerbosity,
        ProfilingVerbosity.LAYER_NAMES_ONLY,
        "Detail of the layer information in the engine.",
    )
    algorithm_selector = Setting(
        IAlgorithmSelector,
        None,
        "Selects among the tactics of each kernel. The build measures all of them, at every optimization"
        " level, and does not use the timing cache.",
    )
    builder_optimization_level = Setting(
        int,
        3,
        "Effort to find fast kernels, 0 to 5. Up to 3, a cost model selects them. 4 and 5 measure tactics of"
        " each kernel, for up to 0.2 and 1 s plus compilation, and store the best in the timing cache.",
        low=0,
        high=5,
    )
    hardware_compatibility_level = Setting(
        HardwareCompatibilityLevel, HardwareCompatibilityLevel.NONE, "Kept: plans load on any machine."
    )
    runtime_platform = Setting(
        RuntimePlatform, RuntimePlatform.SAME_AS_BUILD, "Kept: plans load on any platform."
    )
    max_aux_streams = Setting(int, -1, "Kept: limit of auxiliary streams; kernels use threads.", low=-1)
    progress_monitor = Setting(IProgressMonitor, None, "Receives the progress of builds; may cancel them.")
    max_num_tactics = Setting(
        int,
        -1,
        "Maximum number of tactics to measure per kernel, at levels that measure; −1: that of the level.",
        low=-1,
    )
    tiling_optimization_level = Setting(
        TilingOptimizationLevel, TilingOptimizationLevel.NONE, "Kept; a cost model selects tile sizes."
    )
    l2_limit_for_tiling = Setting(int, 0, "Kept: bytes of cache for tiles.", low=-1)
    remote_auto_tuning_config = Setting(str, "", "Kept: where to measure remotely.")
    build_route = Setting(str, "", 'Kept: route of the build; only the standard route, "", exists.')
    verify = Setting(str, "", '"off", "sample" or "full": verify kernels against the interpreter.')
    checked = Setting(
        bool,
        None,
        "Whether kernels check the index of each load and store. An inference with an access outside a tensor"
        " ends with AR810, which names layers, tensor, index and size. Results do not change, and inferences"
        " take longer. None: the value of ANYRT_CHECKED, by default False. Only AnyRT has this.",
    )
    num_threads = Setting(
        int, None, "Number of threads of the engine; None: that of the machine. Only AnyRT has this.", low=1
    )
    winograd = Setting(
        str,
        "auto",
        '"auto", "off", "F(2,3)" or "F(4,3)": compute convolutions with windows of 3 × 3 by fewer products,'
        " in tiles of 2 × 2 or 4 × 4 results; auto: if that is less work and the weights are constant. Only"
        " AnyRT has this.",
    )

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.reset()

    def reset(self) -> None:
        """Reset every setting to its default, and remove profiles and caches."""
        self._settings: dict[str, object] = {}
        self._profiles: list[IOptimizationProfile] = []
        self._calibration_profile: IOptimizationProfile | None = None
        self._pools: dict[MemoryPoolType, int] = {}
        self._devices: dict[ILayer, DeviceType] = {}
        self._previews = {PreviewFeature.PROFILE_SHARING_0806}  # always so in TensorRT 10
        self._sources = SOURCES
        self._plugins: list[str] = []
        self._timing_cache: ITimingCache | None = None

    @one_line
    def __repr__(self) -> str:
        flags = [flag.name for flag in BuilderFlag if self.flags >> flag & 1]
        changed = [f"{name} = {brief(value)}" for name, value in changed_settings(self) if name != "flags"]
        parts = [counted(len(self._profiles), "profile"), f"flags {' '.join(flags) or 'none'}", *changed]
        return f": {', '.join(parts)}"

    @property
    def all_build_routes(self) -> str:
        """All routes of a build."""
        return ""

    @property
    def plugins_to_serialize(self) -> list[str]:
        """Kept: plug-in libraries. A plan contains no code, so load the libraries before the plan."""
        return [*self._plugins]

    @plugins_to_serialize.setter
    def plugins_to_serialize(self, paths: list[str]) -> None:
        if not isinstance(paths, list):
            raise wrong_type("plugins_to_serialize", paths, "a list of str")
        self._plugins = [*paths]
        if paths:
            text = "plugins_to_serialize has no effect, since plans contain no code; load the library first"
            self._channel.once(Severity.WARNING, text)

    @property
    def num_optimization_profiles(self) -> int:
        """The number of profiles."""
        return len(self._profiles)

    def set_flag(self, flag: BuilderFlag) -> None:
        """Set a flag.

        FP16, BF16 and INT8 allow matrix products and convolutions of weakly typed networks to use these
        types: half types if the machine multiplies them faster, int8 if the dynamic range of the tensor is
        known. OBEY_PRECISION_CONSTRAINTS makes `layer.precision` a constraint, PREFER_PRECISION_CONSTRAINTS a
        preference. Each tensor is rounded to its type, whether it is stored or not. EXCESS_PRECISION, which
        is AnyRT's own, allows kernels to keep half types in float32 between layers, so results depend on
        which tensors are stored. FP16 and BF16 imply it in weakly typed networks, unless precisions are
        constraints.

        With FP16 or INT8, DLA supports float32 layers. With DISABLE_TIMING_CACHE, a build that measures
        ignores the timing cache. With REJECT_EMPTY_ALGORITHMS, the build fails if the algorithm selector
        returns an empty list.

        With REFIT, a Refitter can replace all weights, with REFIT_INDIVIDUAL those of
        `mark_weights_refittable`. The builder then makes no use of their values, which may cost speed. With
        REFIT_IDENTICAL, a Refitter can only set the weights of the build again, which costs no speed.
        STRIP_PLAN leaves all these weights out of the plan, and implies REFIT_IDENTICAL if no other flag is
        set. With WEIGHT_STREAMING, `ICudaEngine.weight_streaming_budget_v2` limits the weights in memory.
        The other flags have no effect, which is logged once."""
        self.flags |= 1 << _member(BuilderFlag, flag, "set_flag")

    def clear_flag(self, flag: BuilderFlag) -> None:
        """Clear a flag."""
        self.flags &= ~(1 << _member(BuilderFlag, flag, "clear_flag"))

    def get_flag(self, flag: BuilderFlag) -> bool:
        """Whether a flag is set."""
        return bool(self.flags & 1 << _member(BuilderFlag, flag, "get_flag"))

    def set_quantization_flag(self, flag: QuantizationFlag) -> None:
        """Set a quantization flag; kept."""
        self.quantization_flags |= 1 << _member(QuantizationFlag, flag, "set_quantization_flag")

    def clear_quantization_flag(self, flag: QuantizationFlag) -> None:
        """Clear a quantization flag."""
        self.quantization_flags &= ~(1 << _member(QuantizationFlag, flag, "clear_quantization_flag"))

    def get_quantization_flag(self, flag: QuantizationFlag) -> bool:
        """Whether a quantization flag is set."""
        return bool(self.quantization_flags & 1 << _member(QuantizationFlag, flag, "get_quantization_flag"))

    def set_preview_feature(self, feature: PreviewFeature, enable: bool) -> None:
        """Enable or disable a preview feature; kept."""
        change = self._previews.add if boolean(enable, "set_preview_feature") else self._previews.discard
        change(_member(PreviewFeature, feature, "set_preview_feature"))
        # Plug-ins may write their outputs over inputs with any setting.
        always = (PreviewFeature.ALIASED_PLUGIN_IO_10_03,)
        tell_idle(self._channel, 1 << feature if enable else 0, PreviewFeature, always)

    def get_preview_feature(self, feature: PreviewFeature) -> bool:
        """Whether a preview feature is enabled."""
        return _member(PreviewFeature, feature, "get_preview_feature") in self._previews

    @quiet(None)
    def set_memory_pool_limit(self, pool: MemoryPoolType, pool_size: int) -> None:
        """Limit a memory pool, in bytes. WORKSPACE is the scratch memory of an engine; others are kept."""
        _member(MemoryPoolType, pool, "set_memory_pool_limit")
        if not isinstance(pool_size, int):
            raise wrong_type("set_memory_pool_limit", pool_size, "an int")
        if pool_size < 0:
            raise ArgumentError(
                "AR304",
                "set_memory_pool_limit",
                f"{pool_size} bytes",
                "0 bytes or more",
                "pass the limit in bytes",
            )
        self._pools[pool] = pool_size

    def get_memory_pool_limit(self, pool: MemoryPoolType) -> int:
        """The limit of a memory pool in bytes (default: the memory of the machine)."""
        _member(MemoryPoolType, pool, "get_memory_pool_limit")
        default = 0 if pool is MemoryPoolType.DLA_MANAGED_SRAM else _machine_memory()
        defaults = {MemoryPoolType.DLA_LOCAL_DRAM: GIB, MemoryPoolType.DLA_GLOBAL_DRAM: GIB // 2}
        return self._pools.get(pool, defaults.get(pool, default))

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        """Add a profile; returns its index. Without a profile, the engine accepts every shape.

        profile = builder.create_optimization_profile()
        profile.set_shape("x", (1, 3, 32, 32), (1, 3, 224, 224), (1, 3, 512, 512))
        config.add_optimization_profile(profile)
        """
        if not isinstance(profile, IOptimizationProfile):
            raise wrong_type("add_optimization_profile", profile, "an IOptimizationProfile")
        self._profiles.append(profile)
        return len(self._profiles) - 1

    def set_calibration_profile(self, profile: IOptimizationProfile) -> bool:
        """Set the profile for calibration: batches have its optimum shapes. Without it, they have those of
        the first profile, or without any profile, as many samples as the calibrator's batch size."""
        if not isinstance(profile, IOptimizationProfile):
            raise wrong_type("set_calibration_profile", profile, "an IOptimizationProfile")
        self._calibration_profile = profile
        return True

    def get_calibration_profile(self) -> IOptimizationProfile | None:
        """The profile for calibration."""
        return self._calibration_profile

    def set_device_type(self, layer: ILayer, device_type: DeviceType) -> None:
        """Set the device of a layer; kept, since all layers run on the CPU."""
        self._devices[_layer(layer, "set_device_type")] = _member(DeviceType, device_type, "set_device_type")

    def get_device_type(self, layer: ILayer) -> DeviceType:
        """The device of a layer."""
        return self._devices.get(_layer(layer, "get_device_type"), self.default_device_type)

    def is_device_type_set(self, layer: ILayer) -> bool:
        """Whether `set_device_type` was called for the layer."""
        return _layer(layer, "is_device_type_set") in self._devices

    def reset_device_type(self, layer: ILayer) -> None:
        """Undo `set_device_type`."""
        self._devices.pop(_layer(layer, "reset_device_type"), None)

    @quiet(False)
    def can_run_on_DLA(self, layer: ILayer) -> bool:
        """Whether the documented limits of DLA allow the layer; otherwise logs the reason."""
        state = state_of(_layer(layer, "can_run_on_DLA"))
        halves = self.get_flag(BuilderFlag.FP16) or self.get_flag(BuilderFlag.INT8)
        # A weakly typed float32 layer computes in half precision if the flags permit it.
        types = DLA_TYPES | {DataType.FLOAT} if halves and not state.network.is_strong else DLA_TYPES
        try:
            reason = dla_reason(state.op, Expansion({}).record(state), types)
        except AnyrtError as error:
            reason = str(error)
        if reason is not None:
            self._channel.log(Severity.INFO, f"{state.place} cannot run on DLA: {reason}")
        return reason is None

    @quiet(False)
    def set_tactic_sources(self, tactic_sources: int) -> bool:
        """Set the tactic sources as a bit mask; kept, since AnyRT compiles all kernels."""
        if not isinstance(tactic_sources, int):
            raise wrong_type("set_tactic_sources", tactic_sources, "a bit mask of TacticSource")
        check_bits("set_tactic_sources", tactic_sources, TacticSource)
        self._sources = tactic_sources
        return True

    def get_tactic_sources(self) -> int:
        """The tactic sources that were set."""
        return self._sources

    @quiet(None)
    def create_timing_cache(self, serialized_timing_cache: bytes | bytearray | memoryview) -> ITimingCache:
        """A timing cache from bytes of `ITimingCache.serialize`, or an empty one from b""."""
        return ITimingCache(serialized_timing_cache)

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
        """Set the timing cache. Builds that measure (see `builder_optimization_level`) use its entries and
        add new ones. They use an entry of `update` like any other."""
        if not isinstance(cache, ITimingCache):
            raise wrong_type("set_timing_cache", cache, "an ITimingCache")
        self._timing_cache = cache
        return True

    def get_timing_cache(self) -> ITimingCache:
        """The timing cache; None before the first build if none was set."""
        return nothing() if self._timing_cache is None else self._timing_cache


mark_absences(IBuilderConfig)


def _member(kind: type[E], x: object, where: str) -> E:
    if not isinstance(x, kind):
        raise wrong_type(where, x, kind)
    return x


def profiles_in(config: IBuilderConfig) -> Sequence[IOptimizationProfile]:
    """The profiles that were added."""
    return config._profiles


def timings_in(config: IBuilderConfig) -> dict[str, tuple[int, float]]:
    """The entries of the timing cache, which is created if there is none."""
    if config._timing_cache is None:
        config._timing_cache = ITimingCache()
    return entries_of(config._timing_cache)


def settings_of(config: IBuilderConfig) -> Settings:
    """The settings that the compiler reads."""
    level = config.verify or read_flags().verify or Verify.OFF.value
    if level not in {v.value for v in Verify}:
        raise ArgumentError(
            "AR304", "config.verify", repr(level), "off, sample or full", 'set config.verify = "full"'
        )
    tiles = config.winograd
    if tiles not in {w.value for w in Winograd}:
        do = 'set config.winograd = "off"'
        raise ArgumentError("AR304", "config.winograd", repr(tiles), "auto, off, F(2,3) or F(4,3)", do)
    return Settings(
        optimization_level=config.builder_optimization_level,
        verify=Verify(level),
        num_threads=config.num_threads,
        memory_limit=config._pools.get(MemoryPoolType.WORKSPACE),
        verbosity=config.profiling_verbosity,
        flags=config.flags,
        max_tactics=config.max_num_tactics,
        winograd=Winograd(tiles),
        checked=read_flags().checked if config.checked is None else config.checked,
    )


def _layer(x: object, where: str) -> ILayer:
    if not isinstance(x, ILayer):
        raise wrong_type(where, x, "an ILayer")
    return x


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
