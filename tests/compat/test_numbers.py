"""Codes and flags of the stand-ins have the numbers documented by CUDA and pycuda."""

import pytest

from anyrt.compat.cuda import driver, nvrtc, runtime
from anyrt.compat.pycuda import driver as pycuda

# The numbers of CUDA's documentation: programs compare codes with literals, and print them.
NUMBERS = {
    runtime.cudaError_t: {
        "cudaSuccess": 0,
        "cudaErrorInvalidValue": 1,
        "cudaErrorMemoryAllocation": 2,
        "cudaErrorInitializationError": 3,
        "cudaErrorInsufficientDriver": 35,
        "cudaErrorNoDevice": 100,
        "cudaErrorInvalidDevice": 101,
        "cudaErrorInvalidResourceHandle": 400,
        "cudaErrorNotReady": 600,
        "cudaErrorLaunchFailure": 719,
        "cudaErrorNotSupported": 801,
        "cudaErrorStreamCaptureUnsupported": 900,
        "cudaErrorStreamCaptureUnmatched": 903,
        "cudaErrorUnknown": 999,
    },
    runtime.cudaStreamCaptureMode: {
        "cudaStreamCaptureModeGlobal": 0,
        "cudaStreamCaptureModeThreadLocal": 1,
        "cudaStreamCaptureModeRelaxed": 2,
    },
    driver.CUstreamCaptureMode: {
        "CU_STREAM_CAPTURE_MODE_GLOBAL": 0,
        "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL": 1,
        "CU_STREAM_CAPTURE_MODE_RELAXED": 2,
    },
    runtime.cudaMemcpyKind: {
        "cudaMemcpyHostToHost": 0,
        "cudaMemcpyHostToDevice": 1,
        "cudaMemcpyDeviceToHost": 2,
        "cudaMemcpyDeviceToDevice": 3,
        "cudaMemcpyDefault": 4,
    },
    runtime.cudaDeviceAttr: {
        "cudaDevAttrMaxThreadsPerBlock": 1,
        "cudaDevAttrMaxSharedMemoryPerBlock": 8,
        "cudaDevAttrWarpSize": 10,
        "cudaDevAttrClockRate": 13,
        "cudaDevAttrMultiProcessorCount": 16,
        "cudaDevAttrIntegrated": 18,
        "cudaDevAttrL2CacheSize": 38,
        "cudaDevAttrUnifiedAddressing": 41,
        "cudaDevAttrComputeCapabilityMajor": 75,
        "cudaDevAttrComputeCapabilityMinor": 76,
    },
    driver.CUresult: {
        "CUDA_SUCCESS": 0,
        "CUDA_ERROR_INVALID_VALUE": 1,
        "CUDA_ERROR_OUT_OF_MEMORY": 2,
        "CUDA_ERROR_NOT_INITIALIZED": 3,
        "CUDA_ERROR_NO_DEVICE": 100,
        "CUDA_ERROR_INVALID_DEVICE": 101,
        "CUDA_ERROR_INVALID_CONTEXT": 201,
        "CUDA_ERROR_INVALID_HANDLE": 400,
        "CUDA_ERROR_NOT_READY": 600,
        "CUDA_ERROR_LAUNCH_FAILED": 719,
        "CUDA_ERROR_NOT_SUPPORTED": 801,
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": 900,
        "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED": 903,
        "CUDA_ERROR_UNKNOWN": 999,
    },
    driver.CUdevice_attribute: {
        "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK": 1,
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK": 8,
        "CU_DEVICE_ATTRIBUTE_WARP_SIZE": 10,
        "CU_DEVICE_ATTRIBUTE_CLOCK_RATE": 13,
        "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": 16,
        "CU_DEVICE_ATTRIBUTE_INTEGRATED": 18,
        "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE": 38,
        "CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING": 41,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 75,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 76,
    },
    driver.CUctx_flags: {
        "CU_CTX_SCHED_AUTO": 0,
        "CU_CTX_SCHED_SPIN": 1,
        "CU_CTX_SCHED_YIELD": 2,
        "CU_CTX_SCHED_BLOCKING_SYNC": 4,
        "CU_CTX_MAP_HOST": 8,
    },
    driver.CUstream_flags: {"CU_STREAM_DEFAULT": 0, "CU_STREAM_NON_BLOCKING": 1},
    driver.CUevent_flags: {
        "CU_EVENT_DEFAULT": 0,
        "CU_EVENT_BLOCKING_SYNC": 1,
        "CU_EVENT_DISABLE_TIMING": 2,
        "CU_EVENT_INTERPROCESS": 4,
    },
    nvrtc.nvrtcResult: {
        "NVRTC_SUCCESS": 0,
        "NVRTC_ERROR_OUT_OF_MEMORY": 1,
        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE": 2,
        "NVRTC_ERROR_INVALID_INPUT": 3,
        "NVRTC_ERROR_INVALID_PROGRAM": 4,
        "NVRTC_ERROR_INVALID_OPTION": 5,
        "NVRTC_ERROR_COMPILATION": 6,
    },
}
CONSTANTS = {
    runtime: {
        "cudaStreamDefault": 0,
        "cudaStreamNonBlocking": 1,
        "cudaStreamLegacy": 1,
        "cudaStreamPerThread": 2,
        "cudaEventDefault": 0,
        "cudaEventBlockingSync": 1,
        "cudaEventDisableTiming": 2,
        "cudaEventInterprocess": 4,
        "cudaHostAllocDefault": 0,
        "cudaHostAllocPortable": 1,
        "cudaHostAllocMapped": 2,
        "cudaHostAllocWriteCombined": 4,
        "cudaMemAttachGlobal": 1,
        "cudaMemAttachHost": 2,
    },
    driver: {"CU_STREAM_LEGACY": 1, "CU_STREAM_PER_THREAD": 2},
    pycuda.device_attribute: {
        "MAX_THREADS_PER_BLOCK": 1,
        "WARP_SIZE": 10,
        "MULTIPROCESSOR_COUNT": 16,
        "L2_CACHE_SIZE": 38,
        "COMPUTE_CAPABILITY_MAJOR": 75,
        "COMPUTE_CAPABILITY_MINOR": 76,
    },
    pycuda.ctx_flags: {
        "SCHED_AUTO": 0,
        "SCHED_SPIN": 1,
        "SCHED_YIELD": 2,
        "SCHED_BLOCKING_SYNC": 4,
        "MAP_HOST": 8,
    },
    pycuda.event_flags: {"DEFAULT": 0, "BLOCKING_SYNC": 1, "DISABLE_TIMING": 2},
    pycuda.host_alloc_flags: {"PORTABLE": 1, "DEVICEMAP": 2, "WRITECOMBINED": 4},
}


@pytest.mark.parametrize("enum", NUMBERS, ids=lambda e: e.__name__)
def test_members_have_cudas_numbers(enum):
    assert {m.name: int(m) for m in enum} == NUMBERS[enum]


@pytest.mark.parametrize("owner", CONSTANTS, ids=lambda o: o.__name__.rpartition(".")[2])
def test_constants_have_cudas_numbers(owner):
    assert {name: getattr(owner, name) for name in CONSTANTS[owner]} == CONSTANTS[owner]
