"""Errors for misspelt methods and enum members suggest the nearest existing name."""

import copy

import pytest

import anyrt


@pytest.fixture
def network():
    return anyrt.Builder(anyrt.Logger()).create_network(0)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("add_convolutions", "add_convolution"),
        ("add_softmx", "add_softmax"),
        ("mark_outputs", "mark_output"),
    ],
)
def test_misspelt_method_names_the_nearest(network, name, near):
    with pytest.raises(
        AttributeError, match=f"'INetworkDefinition' object has no attribute '{name}'; did you mean '{near}'"
    ):
        getattr(network, name)


@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [
        (anyrt.DataType, "FP8x", "FP8"),
        (anyrt.DataType, "float", "FLOAT"),
        (anyrt.BuilderFlag, "FP_16", "FP16"),
    ],
)
def test_misspelt_member_names_the_nearest(kind, name, near):
    with pytest.raises(
        AttributeError,
        match=f"type object '{kind.__name__}' has no attribute '{name}'; did you mean '{near}'",
    ):
        getattr(kind, name)


def test_name_that_is_like_none_has_no_suggestion(network):
    with pytest.raises(AttributeError, match=r"no attribute 'zzz'\Z"):
        network.zzz  # noqa: B018


def test_exceptions_of_an_attribute_itself_pass_through(network):
    with pytest.raises(AttributeError, match="AR902"):
        network.add_rnn_v2  # noqa: B018
    assert not hasattr(network, "add_convolutions")
    assert not hasattr(anyrt.DataType, "FP8x")
    assert copy.copy(anyrt.DataType.FP8) is anyrt.DataType.FP8
