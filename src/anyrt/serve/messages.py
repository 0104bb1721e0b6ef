"""The protocol's messages, in a pool of their own, so that a client's own copies live in the same process.

request = message("ModelInferRequest")
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from anyrt.serve.protocol_pb import DESCRIPTION

PACKAGE: Final = "inference"
SERVICE: Final = f"{PACKAGE}.GRPCInferenceService"


def _pool() -> descriptor_pool.DescriptorPool:
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b85decode("".join(DESCRIPTION.split())))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


_POOL: Final = _pool()


def message_class(name: str) -> type[Message]:
    """The class of the messages of this name."""
    result: type[Message] = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))
    return result


def methods() -> Iterator[MethodDescriptor]:
    """The calls of the service."""
    yield from _POOL.FindServiceByName(SERVICE).methods
