"""DescribeBrokers: registered brokers, and how many replicas each leads and holds, from the metadata."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Final

from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.image import MetadataImage
from kraft.model.brokers import BrokerDescription, DescribeBrokersRequest, DescribeBrokersResponse
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.server.loop.turns import Turns

_PARTITIONS_AT_ONCE: Final = 5_000


async def describe_brokers(image: MetadataImage, request: DescribeBrokersRequest) -> DescribeBrokersResponse:
    """Describe the requested brokers, or all. Raises Refusal BROKER_ID_NOT_REGISTERED for one that does not exist."""
    broker_ids = [BrokerId(broker_id) for broker_id in sorted(set(request.broker_ids))] or sorted(image.brokers)
    for broker_id in broker_ids:
        if broker_id not in image.brokers:
            there = ", ".join(str(known) for known in sorted(image.brokers)) or "none"
            problem = f"there is no broker {broker_id}: registered are {there}"
            raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, problem)
    holdings = await _holdings(image)
    return DescribeBrokersResponse(brokers=[_described(image.brokers[each], holdings) for each in broker_ids])


class _Holdings:
    """Numbers of replicas that every broker leads, holds, and has in sync."""

    def __init__(self) -> None:
        self.leaders: Counter[BrokerId] = Counter()
        self.replicas: Counter[BrokerId] = Counter()
        self.in_sync: Counter[BrokerId] = Counter()


async def _holdings(image: MetadataImage) -> _Holdings:
    """Count in one pass over all partitions of the cluster, with turns for other tasks."""
    holdings, turns = _Holdings(), Turns(_PARTITIONS_AT_ONCE)
    for topic in image.topics.values():
        partitions = topic.partitions.values()
        holdings.leaders.update(each.leader for each in partitions)
        holdings.replicas.update(chain.from_iterable(each.replicas for each in partitions))
        holdings.in_sync.update(chain.from_iterable(each.isr for each in partitions))
        await turns.done(1 + len(partitions))
    return holdings


def _described(broker: BrokerRegistration, holdings: _Holdings) -> BrokerDescription:
    return BrokerDescription(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        addresses=list(broker.endpoints),
        rack=broker.rack,
        fenced=broker.fenced,
        fenced_by_operator=broker.fenced_by_operator,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        leaders=holdings.leaders[broker.broker_id],
        replicas=holdings.replicas[broker.broker_id],
        in_sync=holdings.in_sync[broker.broker_id],
        log_directory_ids=list(broker.directory_ids),
        features=list(broker.features),
    )
