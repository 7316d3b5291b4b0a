"""Calls of the public gRPC API that move replicas between log directories, one row each."""

from __future__ import annotations

from typing import Final

from kraft.rpc.call import Call, service_of
from kraft.rpc.pb import admin_pb2
from kraft.wire.schema.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

_ADMIN: Final = service_of(admin_pb2.DESCRIPTOR, "Admin")

ALTER_REPLICA_LOG_DIRS: Final = Call(
    _ADMIN, "AlterReplicaLogDirs", AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
)
