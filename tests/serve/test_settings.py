"""config.pbtxt: the supported fields, and errors that name unsupported ones."""

import pytest

from anyrt.core.errors import ArgumentError
from anyrt.serve.settings import Settings, read_settings

FULL = """
name: "m" platform: "onnxruntime_onnx" max_batch_size: 8
input [{ name: "x" data_type: TYPE_FP32 dims: [3, -1] }]
dynamic_batching { preferred_batch_size: [8, 4] max_queue_delay_microseconds: 2000
  default_queue_policy { max_queue_size: 9 default_timeout_microseconds: 500000 } }
instance_group [{ count: 2 kind: KIND_CPU }, { }]
version_policy { specific { versions: [1, 3] } }
parameters { key: "batch_invariant" value { string_value: "true" } }
"""


def test_everything_that_is_supported_is_read():
    assert read_settings(FULL, "m") == Settings(
        max_batch_size=8,
        preferred=(4, 8),
        delay_seconds=0.002,
        instances=3,
        versions=(1, 3),
        timeout_seconds=0.5,
        queue=9,
        batch_invariant=True,
        inputs=(("x", 11, (3, -1)),),
    )


def test_an_empty_configuration_serves_single_requests():
    assert read_settings("", "m") == Settings()


def test_policies_of_versions_are_distinguished():
    texts = ("version_policy { all {} }", "version_policy { latest { num_versions: 2 } }", "")
    assert [read_settings(t, "m").versions for t in texts] == [None, 2, 1]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("sequence_batching { }", "sequence_batching"),
        ("model_transaction_policy { decoupled: true }", "model_transaction_policy"),
        ("ensemble_scheduling { }", "ensemble_scheduling"),
        ("instance_group [{ kind: KIND_GPU }]", "KIND_GPU"),
        ("instance_group [{ count: 65 }]", "65 instances"),
        ('backend: "python"', "python"),
        ('name: "other"', "other"),
        ('platform: "x"', "platform"),
        ("max_batch_size: -1", "max_batch_size"),
        ('parameters { key: "k" value { string_value: "v" } }', "parameter k"),
        ("max_batch_size: 2 dynamic_batching { preferred_batch_size: 4 }", "preferred_batch_size"),
        ("max_batch_size: ", "config.pbtxt"),
    ],
)
def test_errors_name_unsupported_fields(text, named):
    with pytest.raises(ArgumentError, match=named):
        read_settings(text, "m")


MANY = """
nme: "m"
sequence_batching { direct { } }
model_warmup [{ name: "w" inputs { key: "x" value { dims: 3 zero_data: true } } }, { name: "v" }]
instance_group [{ cont: 2 }, { rate_limiter { resources [{ name: "r" }] } kind: KIND_CPU }]
optimization < cuda { graphs: true } > # comment: { }
sequence_batching { }
"""


def test_all_unsupported_fields_are_named_at_once():
    with pytest.raises(ArgumentError) as failure:
        read_settings(MANY, "m")
    assert failure.value.got == (
        "unsupported fields 'nme', 'sequence_batching', 'model_warmup', 'instance_group.cont', "
        "'instance_group.rate_limiter', 'optimization'"
    )
    assert failure.value.do == (
        "write 'name' for 'nme', remove 'sequence_batching', remove 'model_warmup', "
        "write 'instance_group.count' for 'instance_group.cont', "
        "remove 'instance_group.rate_limiter', remove 'optimization'"
    )
    names = failure.value.wanted.removeprefix("fields among ").split(", ")
    assert {"name", "dynamic_batching", "instance_group.count", "instance_group.kind"} <= set(names)
    assert not any(n.startswith("version_policy.") for n in names)


def test_errors_of_syntax_are_not_errors_of_fields():
    for text in (
        "max_batch_size: ",
        "name: name: 3",
        "}}} {",
        'name: "x',
        "instance_group [{ kind: KIND_X }]",
    ):
        with pytest.raises(ArgumentError, match="correct this line and column"):
            read_settings(text, "m")
