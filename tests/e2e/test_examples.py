"""Programs in the form of the reference pages, from the network to the outputs."""

from pathlib import Path

import numpy as np
import pytest

import anyrt as trt

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))


def run(network, builder, log, inputs):
    """The outputs for arrays that are cast to the types of the inputs."""
    with trt.strict():
        plan = builder.build_serialized_network(network, builder.create_builder_config())
        engine = trt.Runtime(log).deserialize_cuda_engine(bytes(plan))
    dtypes = {name: trt.nptype(engine.get_tensor_dtype(name)) for name in inputs}
    return engine.run(**{name: np.asarray(x).astype(dtypes[name]) for name, x in inputs.items()})


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_program_in_the_form_of_the_reference_pages(program, net, builder, log):
    names = {"network": net, "inputs": {}, "outputs": {}, "expected": {}, "trt": trt, "np": np}
    exec(compile(program.read_text(), program.name, "exec"), names)
    got = run(net, builder, log, names["inputs"])
    for name, want in names["expected"].items():
        assert got[name].shape == tuple(names["outputs"][name])
        np.testing.assert_allclose(got[name].reshape(want.shape), want, rtol=1e-5, atol=1e-5)
