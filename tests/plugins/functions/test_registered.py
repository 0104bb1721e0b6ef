"""The attributes of registered plug-ins, as Torch-TensorRT reads them."""

import numpy as np
import numpy.typing as npt
import pytest

import anyrt as trt
import anyrt.plugin as trtp
from anyrt.plugin import _lib

D = trtp.TensorDesc


@trtp.register("registered::scaled", lazy_register=True)
def scaled_desc(x: D, y: D, factor: float, pads: npt.NDArray[np.int32]) -> tuple[D, D]:
    return x.like(), y.like()


@trtp.impl("registered::scaled")
def scaled_impl(x, y, outputs, stream):
    np.copyto(np.asarray(outputs[0]), np.asarray(x))


def test_a_plugin_has_its_inputs_attributes_and_functions():
    plugin = trtp.op.registered.scaled
    assert plugin.input_tensor_names == ["x", "y"]
    assert plugin.input_attrs == {"factor": float, "pads": npt.NDArray[np.int32]}
    assert (plugin.num_outputs, plugin.plugin_id) == (2, "registered::scaled")
    assert (plugin.register_func, plugin.impl_func) == (scaled_desc, scaled_impl)
    assert (plugin.aot_impl_func, plugin.autotune_func) == (None, None)


def test_the_registry_of_the_module_has_the_plugins_of_op():
    assert _lib.QDP_REGISTRY["registered::scaled"] is trtp.op.registered.scaled
    assert "registered::nothing" not in _lib.QDP_REGISTRY


def test_a_deleted_name_can_be_registered_again(registry):
    def first(x: D) -> D:
        return x.like()

    def second(x: D, n: int) -> D:
        return x.like()

    trtp.register("registered::again")(first)
    with pytest.raises(ValueError, match="AR304"):
        trtp.register("registered::again")(second)
    del _lib.QDP_REGISTRY["registered::again"]
    trtp.register("registered::again")(second)
    assert trtp.op.registered.again.input_attrs == {"n": int}
    assert trt.get_plugin_registry().get_creator("again", "1", "registered") is not None
