"""Calls of the public gRPC API for ACLs, one row each."""

from __future__ import annotations

from typing import Final

from kraft.rpc.call import Call, service_of
from kraft.rpc.pb import admin_pb2
from kraft.wire.schema.create_acls import CreateAclsRequest, CreateAclsResponse
from kraft.wire.schema.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kraft.wire.schema.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_ADMIN: Final = service_of(admin_pb2.DESCRIPTOR, "Admin")

CREATE_ACLS: Final = Call(_ADMIN, "CreateAcls", CreateAclsRequest, CreateAclsResponse)
DESCRIBE_ACLS: Final = Call(_ADMIN, "DescribeAcls", DescribeAclsRequest, DescribeAclsResponse)
DELETE_ACLS: Final = Call(_ADMIN, "DeleteAcls", DeleteAclsRequest, DeleteAclsResponse)
