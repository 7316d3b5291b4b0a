"""Schemas of Protobuf, from the descriptors that a registry gives for `format=serialized`.

The registry compiles the text of `.proto` files, so that the console needs no compiler; a registry that gives only the
text is not supported.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from kraft.console.records.decoding.limits import CannotDecode

_KNOWN_FILES: Final = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
_OPTIONS_FILE: Final = "confluent/meta.proto"
"""Options of Confluent's registry, which each of its schemas may import, and which say nothing of values."""

_MAIN_FILE: Final = "kraft-console-main.proto"
_ONLY_TEXT: Final = "the registry gives no compiled Protobuf schema (format=serialized), which the console needs"


class ProtobufSchema:
    """One file of messages, of which a record names one by its place."""

    def __init__(self, text: str, referenced: Mapping[str, str]) -> None:
        """`referenced` are further files in base64, by the name under which they are imported. Raises CannotDecode."""
        pool = DescriptorPool()
        self._file = _file(text, _MAIN_FILE)
        files = [*(_file(each, name) for name, each in referenced.items()), self._file]
        wanted = {name for each in files for name in each.dependency} - set(referenced)
        if _OPTIONS_FILE in wanted:
            pool.AddSerializedFile(FileDescriptorProto(name=_OPTIONS_FILE).SerializeToString())
        for known in _KNOWN_FILES:
            if known.DESCRIPTOR.name in wanted:
                pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
        try:
            for each in files:
                pool.AddSerializedFile(each.SerializeToString())
        except TypeError as error:
            reason = str(error).splitlines()[0][:300]
            raise CannotDecode(f"the registry's Protobuf schema cannot be used: {reason}") from None
        self._pool = pool

    def message(self, places: Sequence[int]) -> Descriptor:
        """Return the message at this place among the messages of the file, then inside of it. Raises CannotDecode."""
        names = [self._file.package] if self._file.package else []
        level: Sequence[DescriptorProto] = self._file.message_type
        for place in places:
            if not 0 <= place < len(level):
                raise CannotDecode("the record names a message that its schema does not have")
            names.append(level[place].name)
            level = level[place].nested_type
        found: Any = self._pool.FindMessageTypeByName(".".join(names))
        assert isinstance(found, Descriptor)
        return found


def _file(text: str, name: str) -> FileDescriptorProto:
    try:
        found = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        raise CannotDecode(_ONLY_TEXT) from None
    # Under the name by which others import it, whatever the registry calls it.
    found.name = name
    return found
