"""Ifs whose branches return tensors of different ranks, as exported from programs that squeeze an axis of
size 1."""

import numpy as np
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import anyrt
from anyrt.core.errors import AnyrtError
from tests.messages import diagnostic

HEAD = '<ir_version: 10, opset_import: ["": 21]> g '
SQUEEZED = """
  s = Shape(x) last = Constant<value = int64 {2}>() one = Constant<value = int64 {1}>()
  n = Gather(s, last) is_one = Equal(n, one) minus = Constant<value = int64[1] {-1}>()
  z = If(is_one) <then_branch = a () => (za) { za = Squeeze(x, minus) },
                  else_branch = b () => (zb) { zb = Identity(x) }>
"""
WEIGHTS = "<float[2, 4, 1] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64[1] two = {2}>"
# The nodes after the If, with valid and invalid numbers of columns of x.
MODELS = {
    "one of rank 3": (
        f"(float[m, 4, t] x) => (y) {WEIGHTS} {{ {SQUEEZED} u = Unsqueeze(z, two) y = Conv(u, w) }}",
        [1], [2, 4]),
    "ranks that meet": (f"(float[m, 4, t] x) => (y) {{ {SQUEEZED} y = Flatten<axis = 1>(z) }}", [1, 3], []),
    "in a graph inside": (
        f"(float[m, 4, t] x) => (y) {{ {SQUEEZED} some = ReduceMax<keepdims = 0>(x) zero = Sub(some, some)"
        " big = GreaterOrEqual(some, zero) y = If(big) <then_branch = c () => (yc) { yc = Flatten(z) },"
        " else_branch = d () => (yd) { e = Neg(z) yd = Flatten(e) }> }", [1, 3], []),
    "what needs nothing of it": (
        f"(float[m, 4, t] x) => (y, v) {{ {SQUEEZED} v = Neg(x) f = Flatten<axis = 1>(z) y = Abs(f) }}",
        [1, 3], []),
}  # fmt: skip


def input_of(columns):
    return {"x": np.random.default_rng(columns).standard_normal((3, 4, columns)).astype(np.float32)}


@pytest.mark.parametrize("name", MODELS)
def test_layers_behind_branches_of_different_ranks_are_computed_in_them(name):
    text, possible, refused = MODELS[name]
    model = parser.parse_model(HEAD + text)
    session = anyrt.load(model)
    for columns in possible:
        expected = ReferenceEvaluator(model).run(None, input_of(columns))
        for actual, want in zip(session.run(input_of(columns)).values(), expected, strict=True):
            np.testing.assert_allclose(actual, want, rtol=1e-5)
    for columns in refused:
        with pytest.raises(AnyrtError, match=diagnostic("AR410", "else_branch")):
            session.run(input_of(columns))


@pytest.mark.parametrize("rate", [8, 16])
def test_each_branch_of_a_conditional_has_ranks_of_its_own(rate):
    """One branch reads dimension 8, the other dimension 16; the first one treats 16 columns as two."""
    inner = f"p = Slice(x, nil, far, two, step) {SQUEEZED.replace('(x', '(p')} u = Unsqueeze(z, two)"
    steps = "step = Constant<value = int64[1] {{{}}}>() " + inner.replace("{", "{{").replace("}", "}}")
    text = f"""(float[m, 4, t] x, int64 rate) => (y) {WEIGHTS} {{
      nil = Constant<value = int64[1] {{0}}>() far = Constant<value = int64[1] {{100}}>()
      slow = Constant<value = int64 {{16}}>() is_slow = Equal(rate, slow)
      y = If(is_slow) <then_branch = f () => (yf) {{ {steps.format(16)} yf = Conv(u, w) }},
                       else_branch = g () => (yg) {{ {steps.format(8)} yg = Conv(u, w) }}> }}"""
    session = anyrt.load(model := parser.parse_model(HEAD + text))
    feeds = {**input_of(rate), "rate": np.array(rate, np.int64)}
    np.testing.assert_allclose(
        session.run(feeds)["y"], ReferenceEvaluator(model).run(None, feeds)[0], rtol=1e-5
    )
    with pytest.raises(AnyrtError, match="AR410"):
        session.run({**input_of(2 * rate), "rate": np.array(rate, np.int64)})


# Models with an output whose rank is known only at run time, with valid numbers of columns of x.
OUTPUTS = {
    "by sizes": f"(float[m, 4, t] x) => (z) {{ {SQUEEZED} }}",
    "that nodes read, too":
        f"(float[m, 4, t] x) => (z, v, y) {{ {SQUEEZED} v = Neg(z) y = Flatten<axis = 1>(z) }}",
    "by data": """(float[m, 4, t] x) => (z) {
      zero = Constant<value = float {0}>() all = ReduceSum<keepdims = 0>(x) is_more = Greater(all, zero)
      z = If(is_more) <then_branch = a () => (za) { za = ReduceMax<keepdims = 0>(x) },
                      else_branch = b () => (zb) { zb = Mul(x, x) }> }""",
    "one inside the other": f"""(float[m, 4, t] x) => (z) {{
      two = Constant<value = int64 {{2}}>() full = Shape(x) last = Constant<value = int64 {{2}}>()
      few = Gather(full, last) is_two = Equal(few, two)
      z = If(is_two) <then_branch = c () => (zc) {{ zc = ReduceSum<keepdims = 0>(x) }},
                      else_branch = d () => (zd) {{ {SQUEEZED.replace("z = If", "zd = If")} }}> }}""",
    "one element": """(float[m, 4, t] x) => (z) {
      zero = Constant<value = float {0}>() all = ReduceSum<keepdims = 0>(x) is_more = Greater(all, zero)
      z = If(is_more) <then_branch = a () => (za) { za = ReduceMax<keepdims = 0>(x) },
                      else_branch = b () => (zb) { zb = ReduceMax<keepdims = 1>(x) }> }""",
    "of a type of 4 bits": """(float[m, 4, t] x) => (z) {
      zero = Constant<value = float {0}>() all = ReduceSum<keepdims = 0>(x) is_more = Greater(all, zero)
      one = Constant<value = float {1}>()
      z = If(is_more) <then_branch = a () => (za) { q = ReduceMax<keepdims = 0>(x)
                                                 za = QuantizeLinear<output_dtype = 22>(q, one) },
                      else_branch = b () => (zb) { zb = QuantizeLinear<output_dtype = 22>(x, one) }> }""",
}  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_run_decides_the_rank_of_an_output(name):
    model = parser.parse_model(HEAD + OUTPUTS[name])
    session = anyrt.load(model)
    ranks = set()
    for columns in (1, 3, 2, 5, 1):
        for sign in (1, -1):
            feeds = {"x": np.abs(input_of(columns)["x"]) * np.float32(sign)}
            expected = ReferenceEvaluator(model).run(None, feeds)
            for actual, want in zip(session.run(feeds).values(), expected, strict=True):
                assert actual.shape == want.shape
                np.testing.assert_allclose(actual.astype(np.float32), want.astype(np.float32), rtol=1e-5)
            ranks.add(expected[0].ndim)
    assert len(ranks) > 1


def test_branches_that_are_not_chosen_ask_nothing_of_sizes():
    model = parser.parse_model(HEAD + OUTPUTS["by sizes"])
    assert anyrt.load(model).run(input_of(0))["z"].shape == (3, 4, 0)


class Allocator(anyrt.IOutputAllocator):
    """Keeps the memory of an output, and its shape after an inference."""

    def reallocate_output(self, tensor_name, memory, size, alignment):
        self.memory = np.zeros(max(size, 1), np.uint8)
        return self.memory.ctypes.data

    def notify_shape(self, tensor_name, shape):
        self.shape = tuple(shape)


def engine_of(text, *shapes):
    """An engine of a model, for x of these minimum, optimum and maximum shapes."""
    builder = anyrt.Builder(logger := anyrt.Logger(anyrt.Logger.ERROR))
    network, config = builder.create_network(), builder.create_builder_config()
    assert anyrt.OnnxParser(network, logger).parse(parser.parse_model(text).SerializeToString())
    profile = builder.create_optimization_profile()
    profile.set_shape("x", *shapes)
    config.add_optimization_profile(profile)
    return anyrt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))


def test_allocators_get_the_rank_of_an_inference():
    engine = engine_of(HEAD + OUTPUTS["by sizes"], (3, 4, 1), (3, 4, 2), (3, 4, 8))
    assert engine.num_io_tensors == 2
    assert tuple(engine.get_tensor_shape("z")) == (-1, 4, -1)
    context, allocator = engine.create_execution_context(), Allocator()
    context.set_output_allocator("z", allocator)
    for columns, shape in ((1, (3, 4)), (2, (3, 4, 2))):
        x = input_of(columns)["x"]
        context.set_input_shape("x", x.shape)
        context.set_tensor_address("x", x.ctypes.data)
        assert context.execute_async_v3(0)
        assert allocator.shape == shape
        np.testing.assert_array_equal(allocator.memory[: x.nbytes].view(np.float32), x.ravel())


@pytest.mark.parametrize(("columns", "shape"), [(1, (-1, 4)), (2, (-1, 4, -1))])
def test_a_profile_decides_the_rank_of_an_output(columns, shape):
    sizes = ((rows, 4, columns) for rows in (1, 2, 8))
    engine = engine_of(HEAD + OUTPUTS["by sizes"], *sizes)
    assert tuple(engine.get_tensor_shape("z")) == shape
    context = engine.create_execution_context()
    x, y = input_of(columns)["x"], np.zeros((3, 4, columns), np.float32)
    context.set_input_shape("x", x.shape)
    assert tuple(context.get_tensor_shape("z")) == (3, 4, 2)[: len(shape)]
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("z", y.ctypes.data)
    assert context.execute_async_v3(0)
    np.testing.assert_array_equal(x, y)


def test_iterations_of_a_loop_have_one_rank(golden_text):
    turn = SQUEEZED.replace("z = If", "zs = If")
    text = f"""(float[m, 4, t] x, int64 n, bool go) => (z) {{
      z = Loop(n, go) <body = turn (int64 i, bool c) => (c2, zs) {{ c2 = Identity(c) {turn} }}> }}"""
    with pytest.raises(AnyrtError) as caught:
        anyrt.load(parser.parse_model(HEAD + text))
    golden_text(caught.value)


def test_the_result_of_a_function_is_read_with_one_rank(golden_text):
    head = HEAD.replace("]", ', "own": 1]')
    text = f"""{head} (float[m, 4, t] x) => (y) {{ z = own.Part(x) y = Neg(z) }}
      <domain: "own", opset_import: ["": 21]> Part (x) => (z) {{ {SQUEEZED} }}"""
    with pytest.raises(AnyrtError) as caught:
        anyrt.load(parser.parse_model(text))
    golden_text(caught.value)


def test_branches_that_both_fail_are_reported():
    text = f"(float[m, 4, t] x) => (y) {{ {SQUEEZED} y = Transpose<perm = [4, 3, 2, 1, 0]>(z) }}"
    with pytest.raises(AnyrtError, match=r"AR301\] a#2/y"):
        anyrt.load(parser.parse_model(HEAD + text))
