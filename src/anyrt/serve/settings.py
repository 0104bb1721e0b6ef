"""The settings of a model: its config.pbtxt, which protobuf parses, as a value.

max_batch_size: 8
dynamic_batching { preferred_batch_size: [4, 8] max_queue_delay_microseconds: 2000 }
instance_group [{ count: 2 kind: KIND_CPU }]
version_policy { latest { num_versions: 1 } }
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from google.protobuf import text_format

from anyrt.core.errors import ArgumentError
from anyrt.serve.messages import message_class

BACKENDS: Final = ("", "anyrt", "onnxruntime", "tensorrt")  # what reads models and plans of the kinds served
PLATFORMS: Final = ("", "anyrt", "onnxruntime_onnx", "tensorrt_plan")
INVARIANT: Final = "batch_invariant"
MOST_INSTANCES: Final = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """`max_batch_size` of joined rows, 0: requests are not joined; `preferred` numbers of rows, and the
    maximum delay; concurrent inferences; the served versions, None: all, an int: the latest ones."""

    max_batch_size: int = 0
    preferred: tuple[int, ...] = ()
    delay_seconds: float = 0.0
    instances: int = 1
    versions: int | tuple[int, ...] | None = 1
    timeout_seconds: float | None = None
    queue: int | None = None
    batch_invariant: bool = False
    inputs: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
    outputs: tuple[tuple[str, int, tuple[int, ...]], ...] = ()


def read_settings(text: str, name: str) -> Settings:
    """The settings of model `name`; ArgumentError names the problem, and each unsupported field."""
    where = f"{name}/config.pbtxt"
    config: Any = message_class("ModelConfig")()  # Any: protobuf creates its classes at run time
    try:
        text_format.Parse(text, config)
    except text_format.ParseError as error:
        _check_fields(text, config.DESCRIPTOR, where)
        do = "correct this line and column"
        raise ArgumentError("AR304", where, str(error), "text of a ModelConfig", do) from None
    _check(config, where, name)
    batching = config.dynamic_batching
    joined = config.HasField("dynamic_batching")
    policy = batching.default_queue_policy
    return Settings(
        max_batch_size=config.max_batch_size if joined else min(config.max_batch_size, 1),
        preferred=tuple(sorted(batching.preferred_batch_size)),
        delay_seconds=batching.max_queue_delay_microseconds / 1e6,
        instances=sum(max(1, g.count) for g in config.instance_group) or 1,
        versions=_versions(config.version_policy),
        timeout_seconds=policy.default_timeout_microseconds / 1e6 or None,
        queue=policy.max_queue_size or None,
        batch_invariant=config.parameters[INVARIANT].string_value == "true",
        inputs=tuple((t.name, t.data_type, tuple(t.dims)) for t in config.input),
        outputs=tuple((t.name, t.data_type, tuple(t.dims)) for t in config.output),
    )


def _check_fields(text: str, kind: Any, where: str) -> None:  # Any: see above
    """ArgumentError names all unsupported fields; `text_format.Parse` names only the first one."""
    unknown, known = dict[str, str](), dict[str, None]()
    for path, word, names in _unknown_fields(text, kind):
        near = get_close_matches(word, names, 1, 0.75)
        name = path + word
        unknown[name] = f"write {path + near[0]!r} for {name!r}" if near else f"remove {name!r}"
        known |= dict.fromkeys(path + n for n in names)
    if unknown:
        got = f"unsupported field{'s' * (len(unknown) > 1)} {', '.join(map(repr, unknown))}"
        do = ", ".join(unknown.values())
        raise ArgumentError("AR304", where, got, f"fields among {', '.join(known)}", do)


def _unknown_fields(text: str, kind: Any) -> Iterator[tuple[str, str, list[str]]]:  # Any: see above
    """The path, the name, and the supported names of that message. A word is a field if a colon or a bracket
    follows it."""
    tokens = text_format.Tokenizer(text.splitlines())
    messages, field = [("", kind)], ("", None)
    while not tokens.AtEnd():
        word, (path, kind) = tokens.token, messages[-1]
        tokens.NextToken()
        if word in ("{", "<"):
            messages.append(field)
        elif word in ("}", ">") and len(messages) > 1:
            field = messages.pop()
        elif word.isidentifier() and tokens.token in (":", "{", "<", "["):
            fields = kind.fields_by_name if kind else {}
            field = (f"{path}{word}.", fields[word].message_type if word in fields else None)
            if kind and word not in fields:
                yield path, word, list(fields)


def _check(config: Any, where: str, name: str) -> None:  # Any: see above
    batching = config.dynamic_batching
    gpu = config.instance_group and any(g.kind == 1 for g in config.instance_group)
    count = sum(max(1, g.count) for g in config.instance_group)
    unknown = [p for p in config.parameters if p != INVARIANT]
    too_large = [p for p in batching.preferred_batch_size if not 0 < p <= config.max_batch_size]
    rules = (
        (config.name not in ("", name), f"name {config.name!r}", f"the folder's, {name!r}"),
        (config.backend not in BACKENDS, f"backend {config.backend!r}", " or ".join(BACKENDS[1:])),
        (config.platform not in PLATFORMS, f"platform {config.platform!r}", " or ".join(PLATFORMS[1:])),
        (config.max_batch_size < 0, f"max_batch_size {config.max_batch_size}", "0 or more"),
        (bool(gpu), "KIND_GPU", "KIND_CPU or KIND_AUTO"),
        (count > MOST_INSTANCES, f"{count} instances", f"at most {MOST_INSTANCES}"),
        (bool(unknown), f"parameter {', '.join(unknown)}", INVARIANT),
        (bool(too_large), f"preferred_batch_size {too_large}", f"1 to {config.max_batch_size}"),
    )
    for is_wrong, got, wanted in rules:
        if is_wrong:
            raise ArgumentError("AR304", where, got, wanted)


def _versions(policy: Any) -> int | tuple[int, ...] | None:  # Any: see above
    match policy.WhichOneof("policy_choice"):
        case "all":
            return None
        case "specific":
            return tuple(policy.specific.versions)
        case "latest":
            return max(1, int(policy.latest.num_versions))
    return 1
