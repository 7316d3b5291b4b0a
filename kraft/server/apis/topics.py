"""APIs for topics: their creation and deletion, more partitions, and descriptions."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kraft.metadata.topic_deletion import delete_topics
from kraft.model.access import Operation, ResourceType
from kraft.rpc.call import Handler
from kraft.rpc.calls import METADATA
from kraft.rpc.topic_calls import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_TOPICS,
)
from kraft.server.access import topic_guards
from kraft.server.access.guard import Permission
from kraft.server.apis import audited, mutations
from kraft.server.apis.api import Api, DecidedBy
from kraft.server.apis.auditing import creation_noted
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.handlers import decided, forwarded, from_metadata, never_refused
from kraft.server.apis.sides import Side
from kraft.server.handlers import describe_topic_partitions, metadata, topics
from kraft.server.handlers.describe_configs import DescribeConfigsHandler
from kraft.server.handlers.describe_topics import describe_topics
from kraft.wire.api_keys import ApiKey


def _metadata(broker: BrokerSide) -> Handler[Any, Any]:
    audit = () if broker.audit_topic is None else (broker.audit_topic,)
    return metadata.MetadataHandler(
        broker.image,
        broker.controllers,
        broker.config,
        broker.listener,
        controller=broker.controller_for_clients,
        listed_though_fenced=broker.listed_though_fenced,
        known_to_lead=broker.known_to_lead,
        internal_topics=(*broker.internal_topics.values(), *audit),
        creation_noted=creation_noted(broker),
    ).handle


def _describe_topics(side: Side) -> Handler[Any, Any]:
    return lambda request: describe_topics(side.image(), request)


TOPIC_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.CREATE_TOPICS,
        call=CREATE_TOPICS,
        decided_by=DecidedBy.CONTROLLER,
        handler=lambda broker: partial(
            topics.create, broker.forwarder, DescribeConfigsHandler(broker.config, broker.image)
        ),
        at_controller=lambda controller: partial(
            topics.decide_creation, controller.decisions, controller.entropy, controller.new_topic_defaults
        ),
        # Either is enough: for all names, or for this one.
        audited=audited.CREATE_TOPICS,
        needs=(Permission(Operation.CREATE, ResourceType.CLUSTER), Permission(Operation.CREATE, ResourceType.TOPIC)),
        guard=lambda _: topic_guards.create_topics,
        refused=topics.creation_refused,
        mutations=mutations.CREATION,
    ),
    Api(
        key=ApiKey.DELETE_TOPICS,
        call=DELETE_TOPICS,
        decided_by=DecidedBy.CONTROLLER,
        handler=lambda broker: partial(topics.delete, broker.forwarder, broker.config.topics.deletion_enabled),
        at_controller=decided(delete_topics),
        # Either is enough, likewise.
        audited=audited.DELETE_TOPICS,
        needs=(Permission(Operation.DELETE, ResourceType.CLUSTER), Permission(Operation.DELETE, ResourceType.TOPIC)),
        guard=lambda side: topic_guards.delete_topics(side.image),
        refused=topics.deletion_refused,
        from_version=topics.deletion_from_version,
        to_version=topics.deletion_to_version,
        mutations=mutations.DELETION,
    ),
    Api(
        key=ApiKey.CREATE_PARTITIONS,
        call=CREATE_PARTITIONS,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(CREATE_PARTITIONS, topics.has_grown),
        at_controller=lambda controller: partial(topics.decide_partitions, controller.decisions, controller.entropy),
        audited=audited.CREATE_PARTITIONS,
        needs=(Permission(Operation.ALTER, ResourceType.TOPIC),),
        guard=lambda _: topic_guards.create_partitions,
        refused=topics.partitions_refused,
        mutations=mutations.MORE_PARTITIONS,
    ),
    Api(
        key=ApiKey.METADATA,
        call=METADATA,
        decided_by=DecidedBy.BROKER,
        handler=_metadata,
        takes_context=True,
        # Also to create what is missing.
        needs=(Permission(Operation.DESCRIBE, ResourceType.TOPIC), Permission(Operation.CREATE, ResourceType.TOPIC)),
        guard=lambda side: topic_guards.metadata(side.image, creates=side.config.topics.auto_create_enabled),
        refused=never_refused,
        from_version=metadata.from_version,
        to_version=metadata.to_version,
        reused_for=lambda broker, request: metadata.reused_for(request, tuple(broker.listed_though_fenced())),
    ),
    Api(
        key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        call=DESCRIBE_TOPIC_PARTITIONS,
        decided_by=DecidedBy.BROKER,
        handler=from_metadata(describe_topic_partitions.describe_topic_partitions),
        at_controller=from_metadata(describe_topic_partitions.describe_topic_partitions),
        needs=(Permission(Operation.DESCRIBE, ResourceType.TOPIC),),
        guard=lambda side: topic_guards.describe_topic_partitions(side.image),
        refused=describe_topic_partitions.refused,
    ),
    Api(
        call=DESCRIBE_TOPICS,
        decided_by=DecidedBy.BROKER,
        handler=_describe_topics,
        at_controller=_describe_topics,
        needs=(
            Permission(Operation.DESCRIBE, ResourceType.TOPIC),
            Permission(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
        ),
        guard=lambda side: topic_guards.describe_topics(side.image),
    ),
)
