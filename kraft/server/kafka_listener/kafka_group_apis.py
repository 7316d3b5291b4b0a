"""Table of the Kafka listener's APIs of groups and their offsets, each with the handler that answers it."""

from __future__ import annotations

from kraft.server.handlers.broker_handlers import GroupHandlers
from kraft.server.kafka_listener.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatApi
from kraft.server.kafka_listener.requests import Api
from kraft.wire.api_keys import ApiKey


def kafka_group_apis(handlers: GroupHandlers) -> dict[ApiKey, Api]:
    return {
        ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatApi(handlers.consumer.heartbeat),
    }
