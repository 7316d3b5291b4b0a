"""Table of the Kafka listener's APIs of groups and their offsets, each with the handler that answers it."""

from __future__ import annotations

from kraft.server.handlers.broker_handlers import GroupHandlers
from kraft.server.kafka_listener.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatApi
from kraft.server.kafka_listener.apis.heartbeat import HeartbeatApi
from kraft.server.kafka_listener.apis.join_group import JoinGroupApi
from kraft.server.kafka_listener.apis.leave_group import LeaveGroupApi
from kraft.server.kafka_listener.apis.offset_fetch import OffsetFetchApi
from kraft.server.kafka_listener.apis.sync_group import SyncGroupApi
from kraft.server.kafka_listener.requests import Api
from kraft.wire.api_keys import ApiKey


def kafka_group_apis(handlers: GroupHandlers) -> dict[ApiKey, Api]:
    classic, consumer = handlers.classic, handlers.consumer
    return {
        ApiKey.OFFSET_FETCH: OffsetFetchApi(handlers.offsets.fetch),
        ApiKey.JOIN_GROUP: JoinGroupApi(classic.join),
        ApiKey.SYNC_GROUP: SyncGroupApi(classic.sync),
        ApiKey.HEARTBEAT: HeartbeatApi(classic.heartbeat),
        ApiKey.LEAVE_GROUP: LeaveGroupApi(classic.leave),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatApi(consumer.heartbeat),
    }
