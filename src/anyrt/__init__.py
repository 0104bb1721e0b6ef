"""AnyRT: an open implementation of the TensorRT Python API that compiles networks to native code.

    import anyrt as trt

The module has the names of TensorRT's module and loads each one at its first use, which keeps the import
fast. Further names: `anyrt.strict()` raises errors instead of logging them, and `anyrt.errors` holds the
exception classes.
"""

from __future__ import annotations

import sys
from importlib import import_module

__version__ = "10.16.0"
__anyrt_version__ = "0.1.0"

# Where each name is defined. Enums need no entry, api.derived.layers makes the layer classes.
_HOME: dict[str, tuple[str, ...]] = {
    "api.building.algorithms": (
        *("IAlgorithm", "IAlgorithmContext", "IAlgorithmIOInfo", "IAlgorithmSelector", "IAlgorithmVariant"),
    ),
    "api.building.builder": ("Builder",),
    "api.building.calibrators": (
        *("IInt8Calibrator", "IInt8EntropyCalibrator", "IInt8EntropyCalibrator2"),
        *("IInt8LegacyCalibrator", "IInt8MinMaxCalibrator"),
    ),
    "api.building.config": ("IBuilderConfig",),
    "api.run.context": ("IExecutionContext",),
    "api.model.dims": ("Dims", "Dims2", "Dims3", "Dims4", "DimsHW", "Permutation"),
    "api.run.engine": ("ICudaEngine",),
    "api.run.engine_config": ("IRuntimeConfig", "ISerializationConfig"),
    "api.run.host_memory": ("IHostMemory",),
    "api.run.inspector": ("EngineInspector",),
    "api.edge.interfaces": (
        *(
            "IDebugListener",
            "IErrorRecorder",
            "IGpuAllocator",
            "IGpuAsyncAllocator",
            "ILogger",
            "IOutputAllocator",
        ),
        *("IProfiler", "IProgressMonitor", "IStreamReader", "IStreamReaderV2", "IStreamWriter"),
        *("IVersionedInterface", "InterfaceInfo", "Logger", "Profiler"),
    ),
    "api.model.layer": ("ILayer",),
    "api.edge.module": (
        *("_itemsize", "get_builder_plugin_registry", "get_plugin_registry", "nptype", "volume"),
    ),
    "api.model.network": ("INetworkDefinition",),
    "api.edge.python_logging": ("PythonLogger",),
    "onnx.custom": ("op",),
    "onnx.errors": ("ParserError",),
    "onnx.refitter": ("OnnxParserRefitter",),
    "onnx.parser": ("OnnxParser", "get_nv_onnx_parser_version"),
    "onnx.subgraphs": ("NodeIndices", "SubGraphCollection"),
    "onnx.predictor": ("Predictor",),
    "onnx.session": ("load",),
    "api.plugins.creators": (
        *("IPluginCreator", "IPluginCreatorInterface", "IPluginCreatorV3One", "IPluginCreatorV3Quick"),
    ),
    "api.plugins.desc": ("DynamicPluginTensorDesc", "PluginTensorDesc"),
    "api.plugins.exprs": (
        *("DimsExprs", "IDimensionExpr", "IExprBuilder", "ISymExpr", "ISymExprs", "KernelLaunchParams"),
    ),
    "api.plugins.field": ("PluginField", "PluginFieldCollection", "PluginFieldCollection_"),
    "api.plugins.layer": ("IPluginV2Layer", "IPluginV3Layer"),
    "api.plugins.v2": (
        "IPluginV2",
        "IPluginV2DynamicExt",
        "IPluginV2DynamicExtBase",
        "IPluginV2Ext",
        "IPluginV2IOExt",
    ),
    "api.plugins.v3": (
        *("IPluginCapability", "IPluginResource", "IPluginResourceContext", "IPluginV3"),
        *("IPluginV3OneBuild", "IPluginV3OneBuildV2", "IPluginV3OneCore", "IPluginV3OneRuntime"),
        *("IPluginV3QuickAOTBuild", "IPluginV3QuickBuild", "IPluginV3QuickCore", "IPluginV3QuickRuntime"),
    ),
    "api.plugins.standards": ("init_libnvinfer_plugins",),
    "api.building.profile": ("IOptimizationProfile",),
    "api.run.refitter": ("Refitter",),
    "api.plugins.registry": ("FallbackString", "IPluginRegistry"),
    "api.run.runtime": ("Runtime",),
    "api.model.tensor": ("ITensor",),
    "api.building.timing_cache": ("ITimingCache", "TimingCacheKey", "TimingCacheValue"),
    "api.model.weights": ("Weights",),
    "core.flags": ("strict",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_DTYPES = {
    "float32": "FLOAT",
    "float16": "HALF",
    "bfloat16": "BF16",
    "fp8": "FP8",
    "fp4": "FP4",
    "e8m0": "E8M0",
    "int8": "INT8",
    "uint8": "UINT8",
    "int4": "INT4",
    "int32": "INT32",
    "int64": "INT64",
    "bool": "BOOL",
    "float64": "DOUBLE",
    "int16": "INT16",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "uint4": "UINT4",
    "int2": "INT2",
    "uint2": "UINT2",
    "fp8e5m2": "FP8E5M2",
    "fp8e4m3fnuz": "FP8E4M3FNUZ",
    "fp8e5m2fnuz": "FP8E5M2FNUZ",
}
_MODULES = {"errors": "core.errors", "plugin": "plugin"}
# Programs also import `tensorrt.tensorrt`, a module inside TensorRT's package: here both are the same module.
tensorrt = sys.modules[f"{__name__}.tensorrt"] = sys.modules[__name__]


def __getattr__(name: str) -> object:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'anyrt' has no attribute {name!r}")
    value = _find(name)
    globals()[name] = value
    return value


def _find(name: str) -> object:
    if name in _MODULE_OF:
        return getattr(import_module(f"anyrt.{_MODULE_OF[name]}"), name)
    if name in _DTYPES:
        return getattr(import_module("anyrt.core.enums").DataType, _DTYPES[name])
    if name in _MODULES:
        return import_module(f"anyrt.{_MODULES[name]}")
    if name == "__all__":
        return [n for n in __dir__() if not n.startswith("_")]
    if name in _enum_names():
        return getattr(import_module("anyrt.core.enums"), name)
    return import_module("anyrt.api.derived.layers").class_named(name)


def _enum_names() -> list[str]:
    """The names of enums; `Severity` is a name of ILogger only."""
    base = import_module("anyrt.core.trt_enum").TrtEnum
    members = vars(import_module("anyrt.core.enums")).items()
    enums = [n for n, x in members if isinstance(x, type) and issubclass(x, base) and x is not base]
    return [n for n in enums if n != "Severity"]


def __dir__() -> list[str]:
    layers = import_module("anyrt.api.derived.layers").layer_class_names()
    own = ("__version__", "__anyrt_version__", "tensorrt", *_MODULES)
    return sorted({*own, *_MODULE_OF, *_DTYPES, *_enum_names(), *layers})
