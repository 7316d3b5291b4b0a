"""A schema of Protobuf with each type of field, as a registry compiles it, and its messages by the library."""

from __future__ import annotations

import base64
from typing import Any, Final

from google.protobuf import struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


def field(name: str, number: int, kind: int, *, repeated: bool = False, of: str = "") -> FieldDescriptorProto:
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    # The library takes the numbers of its enums, and its types say names of its own.
    return FieldDescriptorProto(name=name, number=number, type=kind, label=label, type_name=of or None)  # type: ignore[arg-type]


def order_file() -> FileDescriptorProto:
    """Return what a registry compiles of a file in which an order has each type of field."""
    order = DescriptorProto(
        name="Order",
        field=[
            field("id", 1, FieldDescriptorProto.TYPE_INT64),
            field("small", 2, FieldDescriptorProto.TYPE_SINT32),
            field("unsigned", 3, FieldDescriptorProto.TYPE_UINT64),
            field("fixed", 4, FieldDescriptorProto.TYPE_SFIXED32),
            field("total", 5, FieldDescriptorProto.TYPE_DOUBLE),
            field("paid", 6, FieldDescriptorProto.TYPE_BOOL),
            field("note", 7, FieldDescriptorProto.TYPE_STRING),
            field("raw", 8, FieldDescriptorProto.TYPE_BYTES),
            field("state", 9, FieldDescriptorProto.TYPE_ENUM, of=".shop.State"),
            field("counts", 10, FieldDescriptorProto.TYPE_INT32, repeated=True),
            field("before", 11, FieldDescriptorProto.TYPE_MESSAGE, of=".shop.Order"),
            field("lines", 12, FieldDescriptorProto.TYPE_MESSAGE, repeated=True, of=".shop.Order.Line"),
            field("at", 13, FieldDescriptorProto.TYPE_MESSAGE, of=".google.protobuf.Timestamp"),
            field("tags", 14, FieldDescriptorProto.TYPE_MESSAGE, repeated=True, of=".shop.Order.TagsEntry"),
            field("extra", 15, FieldDescriptorProto.TYPE_MESSAGE, of=".google.protobuf.Struct"),
            field("most", 16, FieldDescriptorProto.TYPE_MESSAGE, of=".google.protobuf.Int32Value"),
        ],
        nested_type=[
            DescriptorProto(name="Line", field=[field("sku", 1, FieldDescriptorProto.TYPE_STRING)]),
            DescriptorProto(
                name="TagsEntry",
                field=[
                    field("key", 1, FieldDescriptorProto.TYPE_INT32),
                    field("value", 2, FieldDescriptorProto.TYPE_STRING),
                ],
            ),
        ],
    )
    order.nested_type[1].options.map_entry = True
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3", message_type=[order])
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="SENT", number=1)
    for each in (timestamp_pb2, struct_pb2, wrappers_pb2):
        file.dependency.append(each.DESCRIPTOR.name)
    return file


def text_of(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def _oracle() -> Any:
    pool = DescriptorPool()
    for each in (timestamp_pb2, struct_pb2, wrappers_pb2):
        pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(order_file().SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


Order: Final = _oracle()
