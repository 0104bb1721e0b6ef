"""Invalid functions of a plug-in and invalid calls: one error reports all problems, by name."""

import re
from typing import List, Tuple  # noqa: UP035

import numpy as np
import numpy.typing as npt
import pytest

import anyrt as trt
import anyrt.plugin as trtp
from tests.messages import diagnostic, values_in_order
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
    "function",
    [
        no_annotation,
        default,
        mixed,
        first,
        taken,
        a_list,
        many,
        wrong_array,
        returns_int,
        returns_any,
        unknown,
    ],
)
def test_the_problem_in_a_register_function_is_reported(function, golden_text):
    place = re.compile(r"mistakes::plugin\d+:")
    with pytest.raises(
        ValueError, match=diagnostic("AR315", place, f"{function.__name__} (test_mistakes.py:")
    ) as e:
        register(function)
    golden_text(re.sub(r"plugin\d+", "plugin", str(e.value)))


def test_an_array_without_element_type_needs_lazy_registration():
    with pytest.raises(
        ValueError, match=diagnostic("AR315", "mistakes::open", "n", "numpy.typing.NDArray[numpy.int32]")
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
    with pytest.raises(
        ValueError, match=diagnostic("AR304", "register", "'sample::circ_pad'", "circ_pad_desc")
    ):
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
    "function",
    [
        swapped,
        no_stream,
        more,
        other_type,
        one_output,
        text_stream,
        returns_tensor,
        takes_desc,
    ],
)
def test_an_impl_function_must_match_register(function, golden_text):
    with pytest.raises(ValueError, match="AR315") as e:
        trtp.impl("sample::circ_pad")(function)
    # How an array's type is written depends on the version of NumPy.
    golden_text(re.sub(r"numpy\.ndarray\[.*\](?=, wanted)", "numpy.ndarray[...]", str(e.value)))


def autotune_returns_text(inp0, outputs) -> List[str]: ...  # noqa: UP006
def autotune_takes_stream(inp0, outputs, stream): ...


@pytest.mark.parametrize(
    "function",
    [
        autotune_returns_text,
        autotune_takes_stream,
    ],
)
def test_an_autotune_function_must_match_register(function, golden_text):
    with pytest.raises(ValueError, match="AR315") as e:
        trtp.autotune("sample::circ_pad")(function)
    golden_text(e.value)


@pytest.mark.parametrize("decorator", [trtp.impl, trtp.autotune, trtp.aot_impl])
def test_functions_of_an_unregistered_name_suggest_the_nearest(decorator):
    with pytest.raises(
        ValueError, match=diagnostic("AR304", "plugin_id", "'sample::circ_pat'", "'sample::circ_pad'")
    ):
        decorator("sample::circ_pat")(no_stream)


@pytest.fixture
def net(log):
    return trt.Builder(log).create_network()


@pytest.fixture
def x(net):
    return net.add_input("x", trt.float32, (1, 1, 4, 4))


@pytest.mark.parametrize(
    ("args", "attributes"),
    [
        (1, {}),
        (0, {"pads": np.zeros(2, np.int32)}),
        (2, {"pads": np.zeros(2, np.int32)}),
        (1, {"pad": np.zeros(2, np.int32)}),
        (1, {"pads": [1, 1]}),
        (1, {"pads": np.zeros(2)}),
        (1, {"pads": np.zeros((1, 2), np.int32)}),
    ],
)
def test_a_call_must_match_register(x, args, attributes, golden_text):
    with pytest.raises(ValueError, match="sample::circ_pad") as e:
        trtp.op.sample.circ_pad(*[x] * args, **attributes)
    golden_text(e.value)


def test_other_objects_among_the_tensors_are_reported(x):
    with pytest.raises(ValueError, match=diagnostic("AR315", "sample::circ_pad", "ndarray")):
        trtp.op.sample.circ_pad(np.ones(3), pads=np.zeros(2, np.int32))


def test_missing_names_suggest_the_nearest():
    with pytest.raises(
        AttributeError, match=values_in_order("anyrt.plugin.op.sample", "'circ_pat'", "'circ_pad'")
    ):
        _ = trtp.op.sample.circ_pat
    with pytest.raises(AttributeError, match=values_in_order("anyrt.plugin.op", "'nobody'")):
        _ = trtp.op.nobody


def test_a_plug_in_without_impl_is_rejected(net, x):
    @trtp.register("mistakes::nothing", lazy_register=True)
    def nothing(x: D) -> D:
        return x.like()

    with pytest.raises(ValueError, match=diagnostic("AR306", "mistakes::nothing", "impl", "aot_impl")):
        net.add_plugin(trtp.op.mistakes.nothing(x))
    with pytest.raises(
        ValueError, match=diagnostic("AR306", "mistakes::nothing", "impl", "@impl('mistakes::nothing')")
    ):
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
