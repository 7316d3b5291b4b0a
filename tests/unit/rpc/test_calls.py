from __future__ import annotations

from types import ModuleType

import pytest
from google.protobuf.descriptor import FileDescriptor

from kraft.rpc.call import Call, ServerStream, Stream, service_of
from kraft.rpc.pb import admin_pb2, broker_pb2, controller_pb2, groups_pb2, replication_pb2
from kraft.wire.schema.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.support.declared_calls import DECLARED_CALLS, DeclaredCall

DECLARED = [row for rows in DECLARED_CALLS.values() for row in rows]


@pytest.mark.parametrize("file", [admin_pb2, broker_pb2, controller_pb2, groups_pb2, replication_pb2])
def test_every_method_of_a_proto_file_has_a_row_of_its_kind(file: ModuleType) -> None:
    descriptor: FileDescriptor = file.DESCRIPTOR
    methods = [method for service in descriptor.services_by_name.values() for method in service.methods]
    kinds = {(False, False): Call, (False, True): ServerStream, (True, True): Stream}
    for method in methods:
        name = f"/{method.containing_service.full_name}/{method.name}"
        (row,) = [each for each in DECLARED if each.method == name]
        assert isinstance(row, kinds[method.client_streaming, method.server_streaming])


@pytest.mark.parametrize("row", DECLARED, ids=str)
def test_the_values_of_a_row_have_the_fields_of_its_messages(row: DeclaredCall) -> None:
    for mapping in (row.request, row.response):
        assert mapping.converters


def test_a_row_whose_values_are_not_those_of_its_messages_fails() -> None:
    admin = service_of(admin_pb2.DESCRIPTOR, "Admin")
    with pytest.raises(TypeError, match="DeleteTopicsRequest and message CreateTopicsRequest differ"):
        _ = Call(admin, "CreateTopics", DeleteTopicsRequest, DeleteTopicsResponse).request.converters
    with pytest.raises(KeyError):
        Call(admin, "CreateTopic", DeleteTopicsRequest, DeleteTopicsResponse)
