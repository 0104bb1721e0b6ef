"""Refitting: a Refitter replaces weights of an engine, by layer and role or by name."""

import gc
import threading

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import RefitError
from tests.messages import diagnostic

Flag, Role, FLOAT = trt.BuilderFlag, trt.WeightsRole, trt.float32
RNG = np.random.default_rng(5)
SHAPES = {
    ("conv1", "KERNEL"): (64, 16, 3, 3),
    ("conv1", "BIAS"): (64,),
    ("bn", "SHIFT"): (64,),
    ("bn", "SCALE"): (64,),
    ("conv2", "KERNEL"): (8, 64, 3, 3),
    ("gemm", "CONSTANT"): (8 * 14 * 14, 10),
    ("factor", "CONSTANT"): (1, 1),
}
X = RNG.standard_normal((1, 16, 16, 16)).astype(np.float32)


def draw(shape):
    return RNG.standard_normal(shape).astype(np.float32)


def weights():
    return {place: draw(shape) for place, shape in SHAPES.items()}


def classifier(builder, w):
    """A network of two convolutions, a normalisation and a product, each with its weights."""
    net = builder.create_network()
    net.name = "classifier"
    x = net.add_input("x", FLOAT, X.shape)
    conv1 = net.add_convolution_nd(x, 64, (3, 3), w["conv1", "KERNEL"], w["conv1", "BIAS"])
    conv1.name, conv1.padding_nd = "conv1", (1, 1)
    bn = net.add_scale(conv1.get_output(0), trt.ScaleMode.CHANNEL, w["bn", "SHIFT"], w["bn", "SCALE"])
    bn.name = "bn"
    relu = net.add_activation(bn.get_output(0), trt.ActivationType.RELU)
    conv2 = net.add_convolution_nd(relu.get_output(0), 8, (3, 3), w["conv2", "KERNEL"])
    conv2.name = "conv2"
    flat = net.add_shuffle(conv2.get_output(0))
    flat.reshape_dims = (1, -1)
    gemm, factor = (net.add_constant(SHAPES[n, "CONSTANT"], w[n, "CONSTANT"]) for n in ("gemm", "factor"))
    gemm.name, factor.name = "gemm", "factor"
    none, times = trt.MatrixOperation.NONE, trt.ElementWiseOperation.PROD
    product = net.add_matrix_multiply(flat.get_output(0), none, gemm.get_output(0), none)
    y = net.add_elementwise(product.get_output(0), factor.get_output(0), times).get_output(0)
    y.name = "y"
    net.mark_output(y)
    return net


def built(log, net_of, *flags):
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    for flag in flags:
        config.set_flag(flag)
    return builder.build_engine_with_config(net_of(builder), config)


def give(engine, log, w):
    refitter = trt.Refitter(engine, log)
    for (layer, role), array in w.items():
        assert refitter.set_weights(layer, Role.__members__[role], array)
    return refitter


def y(engine, x=X):
    return engine.run(x=x)["y"]


@pytest.fixture
def first(log):
    return built(log, lambda b: classifier(b, weights()), Flag.REFIT)


def test_a_refitted_engine_has_the_bits_of_one_built_with_the_new_weights(log, first):
    new = weights()
    assert first.refittable
    assert give(first, log, new).refit_cuda_engine()
    for flags in ((Flag.REFIT,), ()):
        assert np.array_equal(y(first), y(built(log, lambda b: classifier(b, new), *flags)))
    assert log.lines == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", [*SHAPES], ids=" ".join)
def test_weights_of_one_layer_change_alone(log, place):
    old = weights()
    engine, one = built(log, lambda b: classifier(b, old), Flag.REFIT), {place: draw(SHAPES[place])}
    refitter = give(engine, log, one)
    assert (refitter.get_missing(), refitter.refit_cuda_engine()) == (([], []), True)
    assert np.array_equal(y(engine), y(built(log, lambda b: classifier(b, old | one))))


@pytest.mark.parametrize("number", [0.0, 1.0, 2.0, -0.5])
def test_nothing_is_decided_by_numbers_that_may_change(log, number):
    special = {place: np.full(shape, number, np.float32) for place, shape in SHAPES.items()}
    engine, new = built(log, lambda b: classifier(b, special), Flag.REFIT), weights()
    assert give(engine, log, new).refit_cuda_engine()
    assert np.array_equal(y(engine), y(built(log, lambda b: classifier(b, new), Flag.REFIT)))
    assert give(engine, log, special).refit_cuda_engine()
    np.testing.assert_allclose(y(engine), y(built(log, lambda b: classifier(b, special))), 1e-4, 1e-4)


def test_all_weights_are_listed_by_layer_and_role(log, first):
    layers, roles = trt.Refitter(first, log).get_all()
    assert [*zip(layers, [r.name for r in roles], strict=True)] == [*SHAPES]


def test_an_engine_that_was_not_built_for_it_rejects(log):
    engine = built(log, lambda b: classifier(b, weights()))
    refitter = trt.Refitter(engine, log)
    assert (refitter.get_all(), refitter.refit_cuda_engine()) == (([], []), False)
    assert refitter.set_weights("conv1", Role.BIAS, draw(64)) is False
    assert [line[:7] for line in log.lines] == ["[AR841]", "[AR841]", "[AR842]"]


@pytest.mark.parametrize(
    ("layer", "role", "array", "code"),
    [
        ("conv1", Role.KERNEL, np.zeros(5, np.float32), "AR843"),
        ("conv1", Role.BIAS, np.zeros(64, np.float16), "AR843"),
        ("conv1", Role.SCALE, np.zeros(64, np.float32), "AR842"),
        ("conv9", Role.KERNEL, np.zeros(64, np.float32), "AR842"),
    ],
)
def test_weights_that_do_not_fit_are_rejected_and_nothing_is_lost(log, first, layer, role, array, code):
    before, refitter = y(first), trt.Refitter(first, log)
    assert refitter.set_weights(layer, role, array) is False
    assert log.lines[-1].startswith(f"[{code}] {layer}")
    assert refitter.refit_cuda_engine()
    assert np.array_equal(y(first), before)


def test_a_missing_name_gets_the_nearest_one_suggested(log, first):
    refitter = trt.Refitter(first, log)
    for name, expected in (("Conv1", "the nearest is 'conv1'"), ("gamm", "the nearest is 'gemm'")):
        assert refitter.set_weights(name, Role.BIAS, draw(64)) is False
        assert expected in log.lines[-1]
    assert refitter.set_weights("x" * 100_000, Role.BIAS, draw(64)) is False
    assert len(log.lines[-1]) < 300


@pytest.mark.parametrize(
    "array",
    [
        draw(128)[::2],
        draw(64)[::-1],
        draw(64).astype(">f4"),
        np.broadcast_to(np.float32(1), 64),
        np.array([None] * 64),
        np.ma.masked_array(draw(64)),
        "weights",
    ],
    ids=["strided", "backwards", "other order", "broadcast", "objects", "masked", "text"],
)
def test_arrays_that_are_no_plain_memory_are_type_errors(log, first, array):
    refitter, before = trt.Refitter(first, log), y(first)
    with pytest.raises(TypeError, match="AR311"):
        refitter.set_weights("conv1", Role.BIAS, array)
    assert (refitter.refit_cuda_engine(), np.array_equal(y(first), before)) == (True, True)


def test_memory_that_was_given_back_rejects_the_refit_and_the_engine_stays(log, first):
    refitter, before = trt.Refitter(first, log), y(first)
    assert refitter.set_weights("conv1", Role.BIAS, trt.Weights(FLOAT, 8, 64))
    assert refitter.refit_cuda_engine() is False
    assert (log.lines[-1][:7], np.array_equal(y(first), before)) == ("[AR307]", True)
    assert refitter.set_weights("conv1", Role.BIAS, draw(64))
    assert refitter.refit_cuda_engine()


def test_a_refitter_keeps_its_weights_and_its_engine_alive(log):
    old, bias = weights(), np.full(64, 2, np.float32)
    engine = built(log, lambda b: classifier(b, old), Flag.REFIT)
    refitter, context = give(engine, log, {("conv1", "BIAS"): bias.copy()}), engine.create_execution_context()
    del engine
    gc.collect()
    assert refitter.refit_cuda_engine()
    expected = built(log, lambda b: classifier(b, old | {("conv1", "BIAS"): bias}))
    assert np.array_equal(y(context.engine), y(expected))


def test_a_refit_that_is_interrupted_leaves_the_engine_as_it_was(log, first, monkeypatch):
    refitter, before = give(first, log, weights()), y(first)

    def half(count, work, what):
        work(0)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("anyrt.runtime.refit.share", half)
        with pytest.raises(KeyboardInterrupt):
            refitter.refit_cuda_engine()
    gc.collect()
    assert np.array_equal(y(first), before)
    assert refitter.refit_cuda_engine()
    assert not np.array_equal(y(first), before)


def test_numbers_that_are_not_finite_are_weights_like_others(log, first):
    refitter = give(first, log, {("factor", "CONSTANT"): np.full((1, 1), np.nan, np.float32)})
    assert refitter.refit_cuda_engine()
    assert np.isnan(y(first)).all()


def test_arguments_of_wrong_types_are_type_errors(log, first):
    refitter = trt.Refitter(first, log)
    for call in (
        lambda: trt.Refitter(None, log),
        lambda: trt.Refitter(first, None),
        lambda: refitter.set_weights("conv1", 0, draw(64)),
        lambda: refitter.set_weights("conv1", Role.BIAS, [0.0] * 64),
        lambda: refitter.set_named_weights("a", draw(1), "HOST"),
        lambda: refitter.refit_cuda_engine_async(None),
    ):
        with pytest.raises(TypeError, match="AR311"):
            call()


def test_numbers_that_a_half_cannot_hold_are_rejected_and_the_engine_stays(log):
    engine = built(log, narrowed, Flag.REFIT)
    before, refitter = y(engine), trt.Refitter(engine, log)
    refitter.set_weights("w", Role.CONSTANT, np.full((1, 16), 1e5, np.float32))
    assert refitter.refit_cuda_engine() is False
    assert (np.array_equal(y(engine), before), log.lines[-1][:13]) == (True, "[AR843] w CON")
    refitter.weights_validation = False
    assert refitter.refit_cuda_engine()
    assert np.isinf(y(engine)).all()


def narrowed(builder):
    net = builder.create_network()
    w = net.add_constant((1, 16), np.ones((1, 16), np.float32))
    w.name = "w"
    half = net.add_cast(w.get_output(0), trt.float16).get_output(0)
    x = net.add_cast(net.add_input("x", FLOAT, X.shape), trt.float16)
    flat = net.add_shuffle(x.get_output(0))
    flat.reshape_dims = (-1, 16)
    total = net.add_elementwise(flat.get_output(0), half, trt.ElementWiseOperation.SUM).get_output(0)
    total.name = "y"
    net.mark_output(total)
    return net


def bound(engine):
    """A context that reads X, and its output."""
    context, out = engine.create_execution_context(), np.empty((1, 10), np.float32)
    context.set_tensor_address("x", X.ctypes.data)
    context.set_tensor_address("y", out.ctypes.data)
    return context, out


def test_contexts_that_were_there_before_take_the_new_weights(log, first):
    (context, out), new = bound(first), weights()
    assert context.execute_async_v3(0)
    assert np.array_equal(out, y(first))
    assert give(first, log, new).refit_cuda_engine()
    assert context.execute_async_v3(0)
    assert np.array_equal(out, y(built(log, lambda b: classifier(b, new))))


def test_runs_meanwhile_see_the_old_weights_or_the_new_ones(log, first):
    (old, new), seen, stop = (weights(), weights()), set(), threading.Event()
    give(first, log, old).refit_cuda_engine()

    def go():
        while not stop.is_set():
            seen.add(bytes(y(first)))

    threads = [threading.Thread(target=go) for _ in range(2)]
    [t.start() for t in threads]
    assert all(give(first, log, w).refit_cuda_engine() for w in (new, old) * 10)
    stop.set()
    [t.join() for t in threads]
    assert seen <= {bytes(y(built(log, lambda b, w=w: classifier(b, w)))) for w in (old, new)}


def test_a_saved_engine_has_the_weights_of_its_last_refit(log, first):
    new = weights()
    give(first, log, new).refit_cuda_engine()
    again = trt.Runtime(log).deserialize_cuda_engine(first.serialize())
    assert (np.array_equal(y(again), y(first)), again.refittable) == (True, True)
    assert give(again, log, weights()).refit_cuda_engine()


def test_a_refitted_plan_finds_its_code_in_the_cache(log, first):
    give(first, log, weights()).refit_cuda_engine()
    lines = []

    class Listen(trt.ILogger):
        def log(self, severity, text):
            lines.append(text)

    assert trt.Runtime(Listen()).deserialize_cuda_engine(first.serialize())
    assert not [line for line in lines if "compiling" in line]


STRIPPED = (Flag.STRIP_PLAN, Flag.REFIT)


@pytest.mark.parametrize("flags", [STRIPPED, STRIPPED[:1]])
def test_a_stripped_plan_is_small_and_runs_once_it_has_its_weights(log, flags):
    w = weights()
    engine = built(log, lambda b: classifier(b, w), *flags)
    assert engine.serialize().nbytes < 64 * 1024 < sum(a.nbytes for a in w.values())
    assert engine.get_engine_stat(trt.EngineStat.STRIPPED_WEIGHTS_SIZE) > 90_000
    assert give(engine, log, w).refit_cuda_engine()
    assert engine.get_engine_stat(trt.EngineStat.STRIPPED_WEIGHTS_SIZE) == 0
    assert np.array_equal(y(engine), y(built(log, lambda b: classifier(b, w))))


def test_a_stripped_engine_reports_missing_weights_when_it_runs(log):
    engine = built(log, lambda b: classifier(b, weights()), *STRIPPED)
    (context, out), places = bound(engine), trt.Refitter(engine, log).get_missing()
    assert context.execute_async_v3(0) is False
    assert "AR844" in log.lines[-1]
    with pytest.raises(
        RefitError, match=diagnostic("AR844", "engine", "'conv1 KERNEL'", "'conv1 BIAS'", "Refitter")
    ):
        engine.run(x=X)
    assert [*zip(*places, strict=True)] == [(n, Role.__members__[r]) for n, r in SHAPES]
    assert give(engine, log, weights()).refit_cuda_engine()
    assert context.execute_async_v3(0)
    assert np.array_equal(out, y(engine))


def test_half_of_the_weights_is_not_enough_for_a_stripped_engine(log):
    w = weights()
    engine = built(log, lambda b: classifier(b, w), Flag.STRIP_PLAN, Flag.REFIT)
    half = dict([*w.items()][:4])
    refitter = give(engine, log, half)
    assert refitter.refit_cuda_engine() is False
    assert "'conv2 KERNEL', 'gemm CONSTANT', 'factor CONSTANT'" in log.lines[-1]
    assert refitter.get_missing() == (
        ["conv2", "gemm", "factor"],
        [Role.KERNEL, Role.CONSTANT, Role.CONSTANT],
    )
    assert bytes(engine.serialize()) == bytes(built(log, lambda b: classifier(b, w), *STRIPPED).serialize())
    for place in [*w][4:]:
        refitter.set_weights(place[0], Role.__members__[place[1]], w[place])
    assert refitter.refit_cuda_engine()


def test_other_weights_than_those_of_the_build_are_rejected_where_they_must_be_these(log):
    w = weights()
    engine = built(log, lambda b: classifier(b, w), Flag.STRIP_PLAN)
    wrong = w | {("conv2", "KERNEL"): weights()["conv2", "KERNEL"]}
    assert give(engine, log, wrong).refit_cuda_engine() is False
    assert log.lines[-1].startswith("[AR845] conv2 KERNEL ")
    assert give(engine, log, w).refit_cuda_engine()


@pytest.mark.parametrize("keeps", [True, False])
def test_weights_are_excluded_from_a_plan_and_come_back_by_a_refit(log, first, keeps):
    w, config = weights(), first.create_serialization_config()
    config.set_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    config.flags |= keeps << int(trt.SerializationFlag.INCLUDE_REFIT)
    plan = first.serialize_with_config(config)
    again = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert plan.nbytes < 64 * 1024 < first.serialize().nbytes
    assert give(again, log, w).refit_cuda_engine()
    config.flags = 1 << int(trt.SerializationFlag.INCLUDE_REFIT)
    whole = trt.Runtime(log).deserialize_cuda_engine(again.serialize_with_config(config))
    assert (np.array_equal(y(whole), y(again)), whole.refittable) == (True, True)


def test_without_include_refit_a_plan_has_its_weights_for_good(log, first):
    config = first.create_serialization_config()
    fixed = trt.Runtime(log).deserialize_cuda_engine(first.serialize_with_config(config))
    assert (fixed.refittable, np.array_equal(y(fixed), y(first))) == (False, True)
    stripped = built(log, lambda b: classifier(b, weights()), *STRIPPED)
    assert stripped.serialize_with_config(config) is None
    assert "AR844" in log.lines[-1]


def test_a_refit_of_the_same_refitter_is_repeated_and_changes_nothing(log, first):
    refitter = give(first, log, weights())
    assert refitter.refit_cuda_engine()
    once = y(first)
    assert refitter.refit_cuda_engine_async(0)
    assert np.array_equal(y(first), once)


def test_arrays_are_read_when_the_engine_is_refitted(log, first):
    bias = np.zeros(64, np.float32)
    refitter = trt.Refitter(first, log)
    refitter.set_weights("conv1", Role.BIAS, bias)
    before = y(first)
    bias += 100
    assert refitter.refit_cuda_engine()
    assert not np.array_equal(y(first), before)
