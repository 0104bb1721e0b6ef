"""Flags: undefined bits raise errors; flags without an effect log one notice."""

import pytest

import anyrt as trt
from tests.messages import diagnostic

Network, Build = trt.NetworkDefinitionCreationFlag, trt.BuilderFlag


@pytest.fixture
def builder(log):
    return trt.Builder(log)


@pytest.fixture
def config(builder):
    return builder.create_builder_config()


@pytest.mark.parametrize("bits", [1 << 9, 1 << 9 | 1, 1 << 4])
def test_network_of_unknown_flags_is_rejected(builder, bits):
    with pytest.raises(
        ValueError, match=diagnostic("AR304", "create_network", bits, f"bit {bits.bit_length() - 1}", 0, 3)
    ):
        builder.create_network(bits)


def test_bits_of_several_unknown_flags_are_all_named(builder):
    with pytest.raises(
        ValueError, match=diagnostic("AR304", "create_network", 3 << 8, "bit 8", "bit 9", 0, 3)
    ):
        builder.create_network(3 << 8)
    with pytest.raises(ValueError, match=diagnostic("AR304", "create_network", -1, 0, 3)):
        builder.create_network(-1)


def test_flags_of_a_network_that_say_something_are_silent(builder, log):
    builder.create_network(1 << Network.EXPLICIT_BATCH | 1 << Network.STRONGLY_TYPED)
    assert builder.create_network(1 << Network.PREFER_AOT_PYTHON_PLUGINS).flags == 8
    assert log.lines == []


def test_build_flag_without_effect_is_logged_once(builder, log):
    for config in (builder.create_builder_config(), builder.create_builder_config()):
        config.set_flag(Build.SPARSE_WEIGHTS)
        config.flags |= 1 << Build.STRICT_NANS
        assert config.get_flag(Build.SPARSE_WEIGHTS)
    assert log.lines == [
        "BuilderFlag.SPARSE_WEIGHTS has no effect",
        "BuilderFlag.STRICT_NANS has no effect",
    ]


def test_build_flags_that_change_something_are_silent(config, log):
    for flag in (Build.OBEY_PRECISION_CONSTRAINTS, Build.DISABLE_TIMING_CACHE, Build.FP16, Build.INT8):
        config.set_flag(flag)
    config.clear_flag(Build.TF32)
    assert log.lines == []


def test_flags_of_narrow_types_without_effect_say_where_types_come_from(config, log):
    config.set_flag(Build.FP8)
    assert log.lines[0].startswith("BuilderFlag.FP8 has no effect on numbers: layers compute in the types")


def test_masks_with_bits_of_no_meaning_change_nothing(config, log):
    before = config.flags
    config.flags, config.quantization_flags = 1 << 40, 2
    assert (config.flags, config.quantization_flags, config.set_tactic_sources(1 << 20)) == (before, 0, False)
    assert [line[:7] for line in log.lines] == ["[AR304]"] * 3


def test_layouts_that_do_not_exist_are_rejected(builder, log):
    tensor = builder.create_network().add_input("x", trt.float32, (2,))
    tensor.allowed_formats = 1 << 30 | 1
    assert (tensor.allowed_formats, "bit 30" in log.lines[0]) == (1, True)


def test_quantisation_flag_and_preview_feature_are_logged_once(config, log):
    config.set_quantization_flag(trt.QuantizationFlag.CALIBRATE_BEFORE_FUSION)
    config.set_preview_feature(trt.PreviewFeature.ALIASED_PLUGIN_IO_10_03, True)
    config.set_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806, True)
    config.set_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806, False)
    assert log.lines == [
        "QuantizationFlag.CALIBRATE_BEFORE_FUSION has no effect",
        "PreviewFeature.PROFILE_SHARING_0806 has no effect",
    ]
