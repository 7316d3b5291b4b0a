"""Calls of the public gRPC API for users, one row each."""

from __future__ import annotations

from typing import Final

from kraft.rpc.call import Call, service_of
from kraft.rpc.pb import admin_pb2
from kraft.wire.schema.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kraft.wire.schema.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

_ADMIN: Final = service_of(admin_pb2.DESCRIPTOR, "Admin")

ALTER_USER_SCRAM_CREDENTIALS: Final = Call(
    _ADMIN, "AlterUserScramCredentials", AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Call(
    _ADMIN, "DescribeUserScramCredentials", DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
)
