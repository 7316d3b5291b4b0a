from __future__ import annotations

import pytest

from kraft.wire.api_keys import ApiKey
from kraft.wire.api_versions import advertised, advertised_versions, is_served
from kraft.wire.schema.api_versions import ApiVersion
from kraft.wire.versions import Versions

# Kafka 4.x after KIP-896, as far as it is served here.
RANGES = {
    "PRODUCE": "0-13", "FETCH": "4-18", "LIST_OFFSETS": "1-11", "METADATA": "0-13", "OFFSET_COMMIT": "2-10",
    "OFFSET_FETCH": "1-10", "FIND_COORDINATOR": "0-6", "JOIN_GROUP": "0-9", "HEARTBEAT": "0-4", "LEAVE_GROUP": "0-5",
    "SYNC_GROUP": "0-5", "DESCRIBE_GROUPS": "0-6", "LIST_GROUPS": "0-5", "SASL_HANDSHAKE": "0-1", "API_VERSIONS": "0-4",
    "CREATE_TOPICS": "2-7", "DELETE_TOPICS": "1-6", "DELETE_RECORDS": "0-2", "INIT_PRODUCER_ID": "0-5",
    "OFFSET_FOR_LEADER_EPOCH": "2-4", "ADD_PARTITIONS_TO_TXN": "0-5", "ADD_OFFSETS_TO_TXN": "0-4", "END_TXN": "0-5",
    "TXN_OFFSET_COMMIT": "0-5", "DESCRIBE_ACLS": "1-3", "CREATE_ACLS": "1-3", "DELETE_ACLS": "1-3",
    "DESCRIBE_CONFIGS": "1-4", "ALTER_CONFIGS": "0-2", "ALTER_REPLICA_LOG_DIRS": "1-2", "DESCRIBE_LOG_DIRS": "1-5",
    "SASL_AUTHENTICATE": "0-2", "CREATE_PARTITIONS": "0-3", "DELETE_GROUPS": "0-2", "ELECT_LEADERS": "0-2",
    "INCREMENTAL_ALTER_CONFIGS": "0-1", "ALTER_PARTITION_REASSIGNMENTS": "0-1", "LIST_PARTITION_REASSIGNMENTS": "0",
    "OFFSET_DELETE": "0", "DESCRIBE_CLIENT_QUOTAS": "0-1", "ALTER_CLIENT_QUOTAS": "0-1",
    "DESCRIBE_USER_SCRAM_CREDENTIALS": "0", "ALTER_USER_SCRAM_CREDENTIALS": "0", "DESCRIBE_QUORUM": "0-2",
    "UPDATE_FEATURES": "0-2", "DESCRIBE_CLUSTER": "0-2", "DESCRIBE_PRODUCERS": "0", "UNREGISTER_BROKER": "0",
    "DESCRIBE_TRANSACTIONS": "0", "LIST_TRANSACTIONS": "0-2", "CONSUMER_GROUP_HEARTBEAT": "0-1",
    "CONSUMER_GROUP_DESCRIBE": "0-1", "GET_TELEMETRY_SUBSCRIPTIONS": "0", "PUSH_TELEMETRY": "0",
    "LIST_CONFIG_RESOURCES": "0-1", "DESCRIBE_TOPIC_PARTITIONS": "0",
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_the_ranges_are_those_of_kafka_4(name: str) -> None:
    assert advertised_versions(ApiKey[name]) == Versions.parse(RANGES[name])


def test_produce_is_advertised_from_version_0_and_served_from_version_3() -> None:
    (produce,) = advertised([ApiKey.PRODUCE])
    assert produce == ApiVersion(api_key=0, min_version=0, max_version=13)
    assert [version for version in range(15) if is_served(ApiKey.PRODUCE, version)] == list(range(3, 14))


def test_what_is_not_advertised_is_not_served_either() -> None:
    assert is_served(ApiKey.INIT_PRODUCER_ID, 5)
    assert not is_served(ApiKey.INIT_PRODUCER_ID, 6)


def test_the_list_is_in_the_order_of_the_keys() -> None:
    listed = advertised([ApiKey.API_VERSIONS, ApiKey.PRODUCE, ApiKey.METADATA])
    assert [each.api_key for each in listed] == [0, 3, 18]


def test_a_number_that_is_no_api_is_a_key_error() -> None:
    for ask in (advertised_versions, lambda number: is_served(number, 0)):
        with pytest.raises(KeyError):
            ask(4)
