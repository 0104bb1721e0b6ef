"""Invalid functions of a plug-in and invalid calls: one error reports all problems, by name."""

from typing import List, Tuple  # noqa: UP035

import numpy as np
import numpy.typing as npt
import pytest

import anyrt as trt
import anyrt.plugin as trtp
from tests.plugins.functions import samples  # registers sample::circ_pad

T, D, C = trtp.Tensor, trtp.TensorDesc, trtp.AutoTuneCombination
NUMBER = iter(range(1000))


def register(function):
    return trtp.register(f"mistakes::plugin{next(NUMBER)}", lazy_register=True)(function)


def no_annotation(x): ...
def default(x: D, n: int = 1) -> D: ...
def mixed(x: D, n: int, y: D) -> D: ...
def first(n: int, x: D) -> D: ...
def taken(x: D, stream: int) -> D: ...
def a_list(x: D, n: list) -> D: ...
def open_array(x: D, n: np.ndarray) -> D: ...
def wrong_array(x: D, n: npt.NDArray[np.uint8]) -> D: ...
def many(*x: D) -> D: ...
def returns_int(x: D) -> int: ...
def returns_any(x: D) -> Tuple[D, ...]: ...  # noqa: UP006
def unknown(x: "Nothing") -> D: ...  # noqa: F821


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_annotation, "x has no annotation; the return value has no annotation"),
        (default, "n has a default"),
        (mixed, "y, a tensor, follows an attribute"),
        (first, "x, a tensor, follows an attribute"),
        (taken, "stream is a reserved name"),
        (a_list, "n is a list, not int, float, bool, str, bytes"),
        (many, "x is not a named parameter"),
        (wrong_array, "n is an array of uint8"),
        (returns_int, "int is returned, not one TensorDesc for each output"),
        (returns_any, "is returned, not one TensorDesc for each output"),
        (unknown, "the annotation 'Nothing' of x fails: NameError"),
    ],
)
def test_the_problem_in_a_register_function_is_reported(function, message):
    with pytest.raises(
        ValueError, match=r"^\[AR315\] mistakes::plugin\d+: \w+ \(test_mistakes.py:\d+\): got"
    ) as e:
        register(function)
    assert message in str(e.value)


def test_an_array_without_element_type_needs_lazy_registration():
    with pytest.raises(
        ValueError, match=r"n is an array without an element type: write numpy.typing.NDArray"
    ):
        trtp.register("mistakes::open")(open_array)
    assert register(open_array) is open_array


def test_all_problems_are_reported_at_once():
    def everything(x, n: int = 1, *, stream: int): ...

    with pytest.raises(ValueError, match="AR315") as e:
        register(everything)
    assert all(
        part in str(e.value)
        for part in ("x has no", "n has a default", "stream is a reserved", "return value")
    )


@pytest.mark.parametrize(
    "name", ["", "x", "a::", "::b", "a::b::c", "a.b::c", "a::b.c", "trt::x", "tensorrt::x"]
)
def test_an_identifier_is_a_namespace_and_a_name(name):
    with pytest.raises(ValueError, match="AR304"):
        trtp.register(name)


def test_a_second_register_function_of_a_name_is_rejected():
    with pytest.raises(ValueError, match=r"\[AR304\] register: got 'sample::circ_pad', which circ_pad_desc"):
        trtp.register("sample::circ_pad")(samples.circ_pad_desc)


def test_a_reloaded_module_replaces_its_functions(build):
    def load(n):
        @trtp.register("mistakes::again")
        def again(x: D) -> D:
            return x.like()

        @trtp.impl("mistakes::again")
        def again_impl(x, outputs, stream):
            np.asarray(outputs[0])[:] = n

    load(1)
    load(2)
    assert build(lambda x: trtp.op.mistakes.again(x), x=(1,)).run(x=np.zeros(1, np.float32))["y0"] == 2


def swapped(pads, inp0, outputs, stream): ...
def no_stream(inp0, outputs): ...
def more(inp0, factor, outputs, stream): ...
def other_type(inp0, pads: int, outputs, stream): ...
def one_output(inp0, outputs: T, stream): ...
def text_stream(inp0, outputs, stream: str): ...
def returns_tensor(inp0, outputs, stream) -> T: ...
def takes_desc(inp0: D, outputs, stream): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (swapped, "the order is pads, inp0, outputs, stream, wanted (inp0, pads, outputs, stream)"),
        (no_stream, "stream is missing, wanted (inp0, outputs, stream)"),
        (more, "factor is none of inp0, pads, outputs, stream, tactic"),
        (other_type, "pads is a int, but register declares numpy.ndarray"),
        (one_output, "outputs is a Tensor, not Tuple[Tensor]"),
        (text_stream, "stream is a str, not an int"),
        (returns_tensor, "Tensor is returned, not None"),
        (takes_desc, "inp0 is a TensorDesc, not a Tensor"),
    ],
)
def test_an_impl_function_must_match_register(function, message):
    with pytest.raises(ValueError, match="AR315") as e:
        trtp.impl("sample::circ_pad")(function)
    assert message in str(e.value)


def autotune_returns_text(inp0, outputs) -> List[str]: ...  # noqa: UP006
def autotune_takes_stream(inp0, outputs, stream): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (autotune_returns_text, "is returned, not List[AutoTuneCombination]"),
        (autotune_takes_stream, "stream is none of inp0, pads, outputs"),
    ],
)
def test_an_autotune_function_must_match_register(function, message):
    with pytest.raises(ValueError, match="AR315") as e:
        trtp.autotune("sample::circ_pad")(function)
    assert message in str(e.value)


@pytest.mark.parametrize("decorator", [trtp.impl, trtp.autotune, trtp.aot_impl])
def test_functions_of_an_unregistered_name_suggest_the_nearest(decorator):
    with pytest.raises(ValueError, match=r"got 'sample::circ_pat', .*; the nearest is 'sample::circ_pad'"):
        decorator("sample::circ_pat")(no_stream)


@pytest.fixture
def net(log):
    return trt.Builder(log).create_network()


@pytest.fixture
def x(net):
    return net.add_input("x", trt.float32, (1, 1, 4, 4))


@pytest.mark.parametrize(
    ("args", "attributes", "message"),
    [
        (1, {}, "got no pads, wanted sample::circ_pad(inp0, pads=...)"),
        (0, {"pads": np.zeros(2, np.int32)}, "got 0 tensors"),
        (2, {"pads": np.zeros(2, np.int32)}, "got 2 tensors"),
        (1, {"pad": np.zeros(2, np.int32)}, "no pads; an unknown pad (is it pads?)"),
        (1, {"pads": [1, 1]}, "got list, wanted a NumPy array of int32"),
        (1, {"pads": np.zeros(2)}, "got an array of float64, wanted a NumPy array of int32"),
        (1, {"pads": np.zeros((1, 2), np.int32)}, "got 2 axes, wanted at most one axis"),
    ],
)
def test_a_call_must_match_register(x, args, attributes, message):
    with pytest.raises(ValueError, match=r"\[AR3(15|04)\] sample::circ_pad") as e:
        trtp.op.sample.circ_pad(*[x] * args, **attributes)
    assert message in str(e.value)


def test_other_objects_among_the_tensors_are_reported(x):
    with pytest.raises(ValueError, match=r"\[AR315\] sample::circ_pad: got ndarray among the tensors"):
        trtp.op.sample.circ_pad(np.ones(3), pads=np.zeros(2, np.int32))


def test_missing_names_suggest_the_nearest():
    with pytest.raises(
        AttributeError, match=r"anyrt.plugin.op.sample has no 'circ_pat'; the nearest is 'circ_pad'"
    ):
        _ = trtp.op.sample.circ_pat
    with pytest.raises(AttributeError, match=r"anyrt.plugin.op has no 'nobody'; register it first"):
        _ = trtp.op.nobody


def test_a_plug_in_without_impl_is_rejected(net, x):
    @trtp.register("mistakes::nothing", lazy_register=True)
    def nothing(x: D) -> D:
        return x.like()

    with pytest.raises(ValueError, match=r"\[AR306\] mistakes::nothing: got no impl or aot_impl function"):
        net.add_plugin(trtp.op.mistakes.nothing(x))
    with pytest.raises(ValueError, match=r"got no impl function"):
        net.add_plugin(trtp.op.mistakes.nothing(x), aot=False)


@pytest.mark.parametrize("func", [3, "op", None])
def test_add_plugin_requires_the_result_of_op(net, func):
    with pytest.raises(TypeError, match="AR311"):
        net.add_plugin(func)


def test_add_plugin_requires_a_tuple_of_three(net, x, log):
    assert net.add_plugin(([x], [])) is None
    assert net.add_plugin(lambda request: 1 / 0) is None
    assert "[AR822] add_plugin" in log.lines[0]
    assert any("ZeroDivisionError" in line for line in log.lines[1:])
