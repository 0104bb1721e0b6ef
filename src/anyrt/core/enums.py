"""TensorRT's enums, numbered as in TensorRT 10.16 plus the members of 11.

>>> DataType.HALF.itemsize, int(DataType.HALF), DataType(1)
(2, 1, <DataType.HALF: 1>)
>>> int(PluginFieldType.FLOAT32)
1
"""

from __future__ import annotations

from anyrt.core.trt_enum import TrtEnum

EXTENSIONS = 128  # the first number of a member that TensorRT has not


class APILanguage(TrtEnum):
    """The implementation language of a plugin."""

    CPP, PYTHON = range(2)


class ActivationType(TrtEnum):
    """The function of an activation layer."""

    RELU, SIGMOID, TANH, LEAKY_RELU, ELU, SELU, SOFTSIGN, SOFTPLUS, CLIP, HARD_SIGMOID = range(10)
    SCALED_TANH, THRESHOLDED_RELU, GELU_ERF, GELU_TANH = range(10, 14)


class AllocatorFlag(TrtEnum):
    """What an allocator promises for one block."""

    RESIZABLE = 0


class AttentionIOForm(TrtEnum):
    """The layout of attention inputs and outputs."""

    PADDED_BHND, PACKED_NHD = range(2)


class AttentionNormalizationOp(TrtEnum):
    """The normalization of attention scores."""

    NONE, SOFTMAX = range(2)


class BoundingBoxFormat(TrtEnum):
    """The encoding of a box for non-maximum suppression."""

    CORNER_PAIRS, CENTER_SIZES = range(2)


class BuilderFlag(TrtEnum):
    """Switches of a builder configuration; EXCESS_PRECISION is AnyRT's own."""

    FP16, INT8, DEBUG, GPU_FALLBACK, REFIT, DISABLE_TIMING_CACHE, TF32, SPARSE_WEIGHTS = range(8)
    SAFETY_SCOPE, OBEY_PRECISION_CONSTRAINTS, PREFER_PRECISION_CONSTRAINTS, DIRECT_IO = range(8, 12)
    REJECT_EMPTY_ALGORITHMS, VERSION_COMPATIBLE, EXCLUDE_LEAN_RUNTIME, FP8 = range(12, 16)
    ERROR_ON_TIMING_CACHE_MISS, BF16, DISABLE_COMPILATION_CACHE, WEIGHTLESS = range(16, 20)
    STRIP_PLAN, REFIT_IDENTICAL, WEIGHT_STREAMING, INT4, REFIT_INDIVIDUAL, STRICT_NANS = range(19, 25)
    MONITOR_MEMORY, FP4, EDITABLE_TIMING_CACHE, DISTRIBUTIVE_INDEPENDENCE = range(25, 29)
    EXCESS_PRECISION = EXTENSIONS

    @property
    def is_extension(self) -> bool:
        """Whether this flag exists only in AnyRT, not in TensorRT."""
        return self._value_ >= EXTENSIONS


class CalibrationAlgoType(TrtEnum):
    """The algorithm of an int8 calibrator."""

    LEGACY_CALIBRATION, ENTROPY_CALIBRATION, ENTROPY_CALIBRATION_2, MINMAX_CALIBRATION = range(4)


class CausalMaskKind(TrtEnum):
    """Where the causal mask of attention is anchored."""

    NONE, UPPER_LEFT, LOWER_RIGHT = range(3)


class CollectiveOperation(TrtEnum):
    """The operation of a collective layer."""

    ALL_REDUCE, ALL_GATHER, BROADCAST, REDUCE, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER = range(8)


class CumulativeOperation(TrtEnum):
    """The operation of a cumulative layer; PROD is AnyRT's own."""

    SUM, PROD = 0, EXTENSIONS

    @property
    def is_extension(self) -> bool:
        """Whether this operation exists only in AnyRT, not in TensorRT."""
        return self._value_ >= EXTENSIONS


class DataType(TrtEnum):
    """The type of one element; those from 128 on are AnyRT's own, beside TensorRT's."""

    FLOAT, HALF, INT8, INT32, BOOL, UINT8, FP8, BF16, INT64, INT4, FP4, E8M0 = range(12)
    DOUBLE, INT16, UINT16, UINT32, UINT64, UINT4, INT2, UINT2 = range(128, 136)
    FP8E5M2, FP8E4M3FNUZ, FP8E5M2FNUZ = range(136, 139)

    @property
    def itemsize(self) -> int | float:
        """Bytes of one element; 0.5 for types that are packed two to a byte, 0.25 for four to a byte."""
        theirs, own = (32, 16, 8, 32, 8, 8, 8, 16, 64, 4, 4, 8), (64, 16, 16, 32, 64, 4, 2, 2, 8, 8, 8)
        bits = (*theirs, *own)[self._value_ - (EXTENSIONS - len(theirs)) * self.is_extension]
        return bits // 8 if bits >= 8 else bits / 8

    @property
    def is_extension(self) -> bool:
        """Whether this type exists only in AnyRT, not in TensorRT."""
        return self._value_ >= EXTENSIONS


class DeviceType(TrtEnum):
    """Where a layer runs."""

    GPU, DLA = range(2)


class DimensionOperation(TrtEnum):
    """Arithmetic on symbolic dimensions in a plugin."""

    SUM, PROD, MAX, MIN, SUB, EQUAL, LESS, FLOOR_DIV, CEIL_DIV = range(9)


class ElementWiseOperation(TrtEnum):
    """The function of an element-wise layer; those from 128 on are AnyRT's own."""

    SUM, PROD, MAX, MIN, SUB, DIV, POW, FLOOR_DIV, AND, OR, XOR, EQUAL, GREATER, LESS = range(14)
    BIT_AND, BIT_OR, BIT_XOR, SHIFT_LEFT, SHIFT_RIGHT, MOD, REMAINDER = range(128, 135)

    @property
    def is_extension(self) -> bool:
        """Whether this operation exists only in AnyRT, not in TensorRT."""
        return self._value_ >= EXTENSIONS


class EngineCapability(TrtEnum):
    """The restrictions under which an engine is built."""

    STANDARD, SAFETY, DLA_STANDALONE = range(3)


class EngineStat(TrtEnum):
    """A statistic of an engine."""

    TOTAL_WEIGHTS_SIZE, STRIPPED_WEIGHTS_SIZE = range(2)


class ErrorCode(TrtEnum):
    """What the ONNX parser reports."""

    SUCCESS, INTERNAL_ERROR, MEM_ALLOC_FAILED, MODEL_DESERIALIZE_FAILED, INVALID_VALUE = range(5)
    INVALID_GRAPH, INVALID_NODE, UNSUPPORTED_GRAPH, UNSUPPORTED_NODE, UNSUPPORTED_NODE_ATTR = range(5, 10)
    UNSUPPORTED_NODE_INPUT, UNSUPPORTED_NODE_DATATYPE, UNSUPPORTED_NODE_DYNAMIC = range(10, 13)
    UNSUPPORTED_NODE_SHAPE, REFIT_FAILED = range(13, 15)


class ErrorCodeTRT(TrtEnum):
    """The code of an error in an error recorder."""

    SUCCESS, UNSPECIFIED_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_CONFIG = range(5)
    FAILED_ALLOCATION, FAILED_INITIALIZATION, FAILED_EXECUTION, FAILED_COMPUTATION = range(5, 9)
    INVALID_STATE, UNSUPPORTED_STATE = range(9, 11)


class ExecutionContextAllocationStrategy(TrtEnum):
    """When a context allocates its memory."""

    STATIC, ON_PROFILE_CHANGE, USER_MANAGED = range(3)


class FillOperation(TrtEnum):
    """How a fill layer generates its values."""

    LINSPACE, RANDOM_UNIFORM, RANDOM_NORMAL = range(3)


class GatherMode(TrtEnum):
    """How a gather layer reads its indices."""

    DEFAULT, ELEMENT, ND = range(3)


class HardwareCompatibilityLevel(TrtEnum):
    """On which other devices an engine should run."""

    NONE, AMPERE_PLUS, SAME_COMPUTE_CAPABILITY = range(3)


class Severity(TrtEnum):
    """How serious a message is; lower is worse."""

    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = range(5)


class InterpolationMode(TrtEnum):
    """How resize and grid sample compute a value between samples."""

    NEAREST, LINEAR, CUBIC = range(3)


class KVCacheMode(TrtEnum):
    """How a key-value cache is written."""

    LINEAR = 0


class LayerInformationFormat(TrtEnum):
    """How the engine inspector prints."""

    ONELINE, JSON = range(2)


class LayerType(TrtEnum):
    """The kind of a layer."""

    CONVOLUTION, CAST, ACTIVATION, POOLING, LRN, SCALE, SOFTMAX, DECONVOLUTION, CONCATENATION = range(9)
    ELEMENTWISE, PLUGIN, UNARY, PADDING, SHUFFLE, REDUCE, TOPK, GATHER, MATRIX_MULTIPLY = range(9, 18)
    RAGGED_SOFTMAX, CONSTANT, IDENTITY, PLUGIN_V2, SLICE, SHAPE, PARAMETRIC_RELU, RESIZE = range(18, 26)
    TRIP_LIMIT, RECURRENCE, ITERATOR, LOOP_OUTPUT, SELECT, FILL, QUANTIZE, DEQUANTIZE = range(26, 34)
    CONDITION, CONDITIONAL_INPUT, CONDITIONAL_OUTPUT, SCATTER, EINSUM, ASSERTION, ONE_HOT = range(34, 41)
    NON_ZERO, GRID_SAMPLE, NMS, REVERSE_SEQUENCE, NORMALIZATION, PLUGIN_V3, SQUEEZE = range(41, 48)
    UNSQUEEZE, CUMULATIVE, DYNAMIC_QUANTIZE, ATTENTION_INPUT, ATTENTION_OUTPUT = range(48, 53)
    ROTARY_EMBEDDING, KV_CACHE_UPDATE, MOE, DIST_COLLECTIVE = range(53, 57)


class LoopOutput(TrtEnum):
    """What a loop outputs."""

    LAST_VALUE, CONCATENATE, REVERSE = range(3)


class MatrixOperation(TrtEnum):
    """How a matrix multiplication reads an operand."""

    NONE, TRANSPOSE, VECTOR = range(3)


class MemoryPoolType(TrtEnum):
    """A pool of memory that a builder may limit."""

    WORKSPACE, DLA_MANAGED_SRAM, DLA_LOCAL_DRAM, DLA_GLOBAL_DRAM, TACTIC_DRAM = range(5)
    TACTIC_SHARED_MEMORY = 5


class MoEActType(TrtEnum):
    """The activation inside a mixture of experts."""

    NONE, SILU = range(2)


class NetworkDefinitionCreationFlag(TrtEnum):
    """Switches of `create_network`, as bit positions."""

    EXPLICIT_BATCH, STRONGLY_TYPED, PREFER_JIT_PYTHON_PLUGINS, PREFER_AOT_PYTHON_PLUGINS = range(4)


class OnnxParserFlag(TrtEnum):
    """Switches of the ONNX parser."""

    NATIVE_INSTANCENORM, ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA, REPORT_CAPABILITY_DLA = range(3)
    ENABLE_PLUGIN_OVERRIDE, ADJUST_FOR_DLA = range(3, 5)


class PaddingMode(TrtEnum):
    """How convolution and pooling choose padding."""

    EXPLICIT_ROUND_DOWN, EXPLICIT_ROUND_UP, SAME_UPPER, SAME_LOWER = range(4)


class PluginArgDataType(TrtEnum):
    """The type of a scalar argument of an ahead-of-time plugin."""

    INT8, INT16, INT32 = range(3)


class PluginArgType(TrtEnum):
    """The kind of an argument of an ahead-of-time plugin."""

    INT = 0


class PluginCapabilityType(TrtEnum):
    """The interface of a plugin that is requested."""

    CORE, BUILD, RUNTIME = range(3)


class PluginCreatorVersion(TrtEnum):
    """The version of a plugin creator."""

    V1 = 0
    V1_PYTHON = 64


class PluginFieldType(TrtEnum):
    """The type of a field passed to a plugin creator."""

    FLOAT16, FLOAT32, FLOAT64, INT8, INT16, INT32, CHAR, DIMS, UNKNOWN, BF16, INT64, FP8, INT4 = range(13)
    FP4 = 13


class PoolingType(TrtEnum):
    """The function of a pooling layer."""

    MAX, AVERAGE, MAX_AVERAGE_BLEND = range(3)


class PreviewFeature(TrtEnum):
    """Features that are not yet on by default."""

    PROFILE_SHARING_0806, ALIASED_PLUGIN_IO_10_03, RUNTIME_ACTIVATION_RESIZE_10_10 = range(3)
    MULTIDEVICE_RUNTIME_10_16 = 3


class ProfilingVerbosity(TrtEnum):
    """The level of detail of layer information."""

    LAYER_NAMES_ONLY, NONE, DETAILED = range(3)


class QuantizationFlag(TrtEnum):
    """Switches of quantisation."""

    CALIBRATE_BEFORE_FUSION = 0


class QuickPluginCreationRequest(TrtEnum):
    """The requested form of a decorator plugin."""

    UNKNOWN, PREFER_JIT, PREFER_AOT, STRICT_JIT, STRICT_AOT = range(5)


class ReduceOperation(TrtEnum):
    """The function of a reduction."""

    SUM, PROD, MAX, MIN, AVG, NONE = range(6)


class ResizeCoordinateTransformation(TrtEnum):
    """How resize maps output positions to input positions."""

    ALIGN_CORNERS, ASYMMETRIC, HALF_PIXEL = range(3)


class ResizeRoundMode(TrtEnum):
    """How nearest resize rounds a position."""

    HALF_UP, HALF_DOWN, FLOOR, CEIL = range(4)


class ResizeSelector(TrtEnum):
    """How resize treats a single output pixel."""

    FORMULA, UPPER = range(2)


class RuntimePlatform(TrtEnum):
    """The platform an engine is built for."""

    SAME_AS_BUILD, WINDOWS_AMD64 = range(2)


class SampleMode(TrtEnum):
    """What slice and grid sample return for positions outside the input."""

    STRICT_BOUNDS, WRAP, CLAMP, FILL, REFLECT = range(5)


class ScaleMode(TrtEnum):
    """The elements that one scale coefficient applies to."""

    UNIFORM, CHANNEL, ELEMENTWISE = range(3)


class ScatterMode(TrtEnum):
    """How a scatter layer reads its indices."""

    ELEMENT, ND = range(2)


class SeekPosition(TrtEnum):
    """The reference point of a stream position."""

    SET, CUR, END = range(3)


class SerializationFlag(TrtEnum):
    """Switches of engine serialisation."""

    EXCLUDE_WEIGHTS, EXCLUDE_LEAN_RUNTIME, INCLUDE_REFIT = range(3)


class TacticSource(TrtEnum):
    """Libraries that kernels may come from."""

    CUBLAS, CUBLAS_LT, CUDNN, EDGE_MASK_CONVOLUTIONS, JIT_CONVOLUTIONS = range(5)


class TempfileControlFlag(TrtEnum):
    """How temporary files may be made."""

    ALLOW_IN_MEMORY_FILES, ALLOW_TEMPORARY_FILES = range(2)


class TensorFormat(TrtEnum):
    """The memory layout of an input or output."""

    LINEAR, CHW2, HWC8, CHW4, CHW16, CHW32, DHWC8, CDHW32, HWC, DLA_LINEAR, DLA_HWC4, HWC16 = range(12)
    DHWC = 12


class TensorIOMode(TrtEnum):
    """Whether a tensor is an input or an output."""

    NONE, INPUT, OUTPUT = range(3)


class TensorLocation(TrtEnum):
    """Where the memory of a tensor lies."""

    DEVICE, HOST = range(2)


class TensorRTPhase(TrtEnum):
    """Whether a plugin is being built or run."""

    BUILD, RUNTIME = range(2)


class TilingOptimizationLevel(TrtEnum):
    """The amount of time for tiling optimization."""

    NONE, FAST, MODERATE, FULL = range(4)


class TopKOperation(TrtEnum):
    """Whether the largest or smallest values are selected."""

    MAX, MIN = range(2)


class TripLimit(TrtEnum):
    """The condition that ends a loop."""

    COUNT, WHILE = range(2)


class UnaryOperation(TrtEnum):
    """The function of a unary layer."""

    EXP, LOG, SQRT, RECIP, ABS, NEG, SIN, COS, TAN, SINH, COSH, ASIN, ACOS, ATAN, ASINH, ACOSH = range(16)
    ATANH, CEIL, FLOOR, ERF, NOT, SIGN, ROUND, ISINF, ISNAN = range(16, 25)


class WeightsRole(TrtEnum):
    """The role of weights in a layer."""

    KERNEL, BIAS, SHIFT, SCALE, CONSTANT, ANY = range(6)
