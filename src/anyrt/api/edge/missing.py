"""Names of TensorRT's API that are not implemented, with a suggested replacement in the error.

The error is an AttributeError, so `hasattr` returns False, and `from anyrt import UffParser` raises
ImportError. An implemented name is unaffected: a new operator overrides its line here.

>>> lookup_error("anyrt", "UffParser")
MissingName('AR902', 'anyrt.UffParser', '', '', 'export the model to ONNX, and read it with OnnxParser')
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import getattr_static
from typing import NoReturn

from anyrt.api.edge.fixed import Absent
from anyrt.core.errors import MissingName


@dataclass(frozen=True, slots=True)
class Topic:
    """A group of missing names, separated by spaces: names of the module, or `Class.name`."""

    title: str
    do: str
    text: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the text."""
        return tuple(self.text.split())


# Layers: a method of the network, its classes, and the replacement.
LAYERS: dict[str, tuple[str, str]] = {
    "add_rnn_v2": (
        "IRNNv2Layer RNNDirection RNNGateType RNNInputMode RNNOperation",
        "TensorRT 10 removed it; add a loop with network.add_loop, or the layers of each step",
    ),
}

OTHERS = (
    Topic(
        "parsers of TensorRT 8",
        "export the model to ONNX, and read it with OnnxParser",
        "CaffeParser ICaffePluginFactoryV2 IBlobNameToTensor UffParser UffInputOrder FieldCollection"
        " FieldMap FieldType shutdown_protobuf_library",
    ),
)

# Names that TensorRT 10 removed, and their replacements; `python -m anyrt.compat --api 8.6` provides them.
REMOVED: dict[str, dict[str, str]] = {
    "anyrt": {
        "IFullyConnectedLayer": "IMatrixMultiplyLayer",
        "ResizeMode": "InterpolationMode",
        "SliceMode": "SampleMode",
    },
    "Builder": {
        "build_engine": "build_engine_with_config",
        "max_batch_size": "the batch dimension of the input shapes",
    },
    "IBuilderConfig": {
        "max_workspace_size": "set_memory_pool_limit(MemoryPoolType.WORKSPACE, bytes)",
        "min_timing_iterations": "avg_timing_iterations",
    },
    "INetworkDefinition": {
        "add_fully_connected": "add_matrix_multiply and add_elementwise SUM",
        "has_explicit_precision": "the types of tensors",
    },
    "IConvolutionLayer": {
        "kernel_size": "kernel_size_nd",
        "stride": "stride_nd",
        "padding": "padding_nd",
        "dilation": "dilation_nd",
    },
    "IDeconvolutionLayer": {
        "kernel_size": "kernel_size_nd",
        "stride": "stride_nd",
        "padding": "padding_nd",
    },
    "IPaddingLayer": {"pre_padding": "pre_padding_nd", "post_padding": "post_padding_nd"},
    "IPoolingLayer": {"window_size": "window_size_nd", "stride": "stride_nd", "padding": "padding_nd"},
    "ICudaEngine": {
        "num_bindings": "num_io_tensors",
        "max_batch_size": "get_tensor_profile_shape",
        "get_binding_name": "get_tensor_name",
        "get_binding_index": "the name of the tensor",
        "binding_is_input": "get_tensor_mode",
        "get_binding_shape": "get_tensor_shape",
        "get_binding_dtype": "get_tensor_dtype",
        "get_binding_format": "get_tensor_format",
        "get_binding_format_desc": "get_tensor_format_desc",
        "get_binding_bytes_per_component": "get_tensor_bytes_per_component",
        "get_binding_components_per_element": "get_tensor_components_per_element",
        "get_binding_vectorized_dim": "get_tensor_vectorized_dim",
        "get_location": "get_tensor_location",
        "get_profile_shape": "get_tensor_profile_shape",
        "get_profile_shape_input": "get_tensor_profile_values",
        "is_shape_binding": "is_shape_inference_io",
        "is_execution_binding": "get_tensor_location",
    },
    "IExecutionContext": {
        "execute": "execute_v2",
        "execute_async": "execute_async_v3",
        "execute_async_v2": "execute_async_v3",
        "set_binding_shape": "set_input_shape",
        "get_binding_shape": "get_tensor_shape",
        "get_strides": "get_tensor_strides",
        "set_shape_input": "set_tensor_address",
        "get_shape": "get_tensor_address",
    },
}


def _advice() -> dict[str, str]:
    """The replacement of each missing name; methods as `Class.name`."""
    advice = {name: topic.do for topic in OTHERS for name in topic.names}
    for method, (classes, do) in LAYERS.items():
        advice |= dict.fromkeys((f"INetworkDefinition.{method}", *classes.split()), do)
    return advice


ADVICE = _advice()


def lookup_error(owner: str, name: str) -> AttributeError:
    """The AttributeError for a name that `owner`, "anyrt" or a class, lacks."""
    full = name if owner == "anyrt" else f"{owner}.{name}"
    if full in ADVICE:
        return MissingName("AR902", f"{owner}.{name}", do=ADVICE[full])
    if name in REMOVED.get(owner, ()):
        do = f"use {REMOVED[owner][name]}, or run the program with `python -m anyrt.compat --api 8.6`"
        return MissingName("AR903", f"{owner}.{name}", do=do)
    return AttributeError(f"module {owner!r} has no attribute {name!r}")


class Absence(Absent):
    """A placeholder in a class for a missing name: reading or setting it raises the error."""

    __anyrt_stub__ = True

    def __init__(self, owner: str, name: str) -> None:
        self.owner = owner
        self.name = name
        self.__doc__ = str(lookup_error(owner, name))

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise lookup_error(self.owner, self.name)

    def __set__(self, instance: object, value: object) -> NoReturn:
        raise lookup_error(self.owner, self.name)


def mark_absences(owner: type) -> None:
    """Add a placeholder to `owner` for each missing name."""
    prefix = f"{owner.__name__}."
    known = [n.removeprefix(prefix) for n in ADVICE if n.startswith(prefix)]
    known += REMOVED.get(owner.__name__, ())
    absent = {n: Absence(owner.__name__, n) for n in known if getattr_static(owner, n, None) is None}
    for name, member in absent.items():
        setattr(owner, name, member)
