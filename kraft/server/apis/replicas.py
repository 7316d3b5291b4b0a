"""APIs about the replicas of partitions, which their leaders answer, or each broker of its own."""

from __future__ import annotations

from typing import Any, Final

from kraft.rpc.transaction_calls import DESCRIBE_PRODUCERS
from kraft.server.apis.api import Api, DecidedBy, Operation, Permission, Resource
from kraft.server.apis.handlers import never_refused
from kraft.server.handlers.describe_producers import DescribeProducersHandler
from kraft.wire.api_keys import ApiKey

REPLICA_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.DESCRIBE_PRODUCERS,
        call=DESCRIBE_PRODUCERS,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: DescribeProducersHandler(broker.partitions, broker.image).handle,
        needs=(Permission(Operation.READ, Resource.TOPIC),),
        refused=never_refused,
    ),
)
