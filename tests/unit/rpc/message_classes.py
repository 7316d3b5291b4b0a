"""Message classes of the tests' own, so that a test of the mapping does not depend on an API."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


def message_class(name: str, messages: str) -> type[Any]:
    """Return one of the messages, which are given in the text format of a file's descriptor."""
    file = text_format.Parse(f'name: "tests.proto" package: "tests" syntax: "proto3" {messages}', FileDescriptorProto())
    pool = DescriptorPool()
    pool.Add(file)
    found: type[Any] = GetMessageClass(pool.FindMessageTypeByName(f"tests.{name}"))
    return found
