"""API keys, Kafka's numbers of its APIs, and each API's request and response."""

from __future__ import annotations

from enum import IntEnum
from importlib import import_module
from typing import Final

from kraft.wire.declaration import Message


class ApiKey(IntEnum):
    """Keys of the APIs that `kraft/wire/schema` declares, by the name of the file there."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81


_requests: Final[dict[int, type[Message]]] = {}
_responses: Final[dict[int, type[Message]]] = {}


def request_type(api_key: int) -> type[Message]:
    """Return the request's class. Its declaration is imported at first use, so a broker starts without unused ones.

    Raises KeyError for a number that is not an `ApiKey`.
    """
    if api_key not in _requests:
        _import(api_key)
    return _requests[api_key]


def response_type(api_key: int) -> type[Message]:
    """Return the response's class, imported as by `request_type`. Raises KeyError."""
    if api_key not in _responses:
        _import(api_key)
    return _responses[api_key]


def _import(number: int) -> None:
    try:
        api_key = ApiKey(number)
    except ValueError:
        raise KeyError(number) from None
    module = import_module(f"kraft.wire.schema.{api_key.name.lower()}")
    name = "".join(word.capitalize() for word in api_key.name.split("_"))
    _requests[api_key] = getattr(module, f"{name}Request")
    _responses[api_key] = getattr(module, f"{name}Response")
