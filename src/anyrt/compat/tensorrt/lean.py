"""`tensorrt_lean` and `tensorrt_dispatch`: the names of TensorRT that load and execute plans.

>>> import anyrt
>>> from anyrt.compat.tensorrt import lean
>>> lean.Runtime is anyrt.Runtime, hasattr(lean, "Builder")
(True, False)
"""

from __future__ import annotations

from typing import Final

import anyrt

__version__ = anyrt.__version__
NAMES: Final = (
    *("AllocatorFlag", "APILanguage", "DataType", "Dims", "Dims2", "Dims3", "Dims4", "DimsHW", "DimsExprs"),
    *("EngineCapability", "EngineInspector", "ErrorCodeTRT", "ExecutionContextAllocationStrategy"),
    *("HardwareCompatibilityLevel", "ICudaEngine", "IDebugListener", "IErrorRecorder", "IExecutionContext"),
    *("IGpuAllocator", "IGpuAsyncAllocator", "IHostMemory", "ILogger", "InterfaceInfo", "IOutputAllocator"),
    *("IProfiler", "IRuntimeConfig", "ISerializationConfig", "IStreamReader", "IStreamReaderV2"),
    *("IVersionedInterface", "LayerInformationFormat", "Logger", "Permutation", "Profiler", "Refitter"),
    *("ProfilingVerbosity", "Runtime", "SeekPosition", "SerializationFlag", "TempfileControlFlag"),
    *("TensorFormat", "TensorIOMode", "TensorLocation", "Weights", "WeightsRole", "nptype", "volume"),
    *("bfloat16", "bool", "float16", "float32", "fp4", "fp8", "int32", "int4", "int64", "int8", "uint8"),
)


def __getattr__(name: str) -> object:
    if name not in NAMES:
        raise AttributeError(f"module 'tensorrt_lean' (or 'tensorrt_dispatch') has no attribute {name!r}")
    return getattr(anyrt, name)


def __dir__() -> list[str]:
    return [n for n in NAMES if hasattr(anyrt, n)]
