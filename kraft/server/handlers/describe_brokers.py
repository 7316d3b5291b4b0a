"""DescribeBrokers: registered brokers, and how many replicas each leads and holds, from the metadata."""

from __future__ import annotations

from collections import Counter

from kraft.metadata.image import BrokerRegistration, MetadataImage
from kraft.model.brokers import BrokerDescription, DescribeBrokersRequest, DescribeBrokersResponse
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId


def describe_brokers(image: MetadataImage, request: DescribeBrokersRequest) -> DescribeBrokersResponse:
    """Describe the requested brokers, or all. Raises Refusal BROKER_ID_NOT_REGISTERED for one that does not exist."""
    broker_ids = [BrokerId(broker_id) for broker_id in sorted(set(request.broker_ids))] or sorted(image.brokers)
    for broker_id in broker_ids:
        if broker_id not in image.brokers:
            there = ", ".join(str(known) for known in sorted(image.brokers)) or "none"
            problem = f"there is no broker {broker_id}: registered are {there}"
            raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, problem)
    holdings = _Holdings(image)
    return DescribeBrokersResponse(brokers=[_described(image.brokers[each], holdings) for each in broker_ids])


class _Holdings:
    """Numbers of replicas that every broker leads and holds, counted in one pass over the partitions."""

    def __init__(self, image: MetadataImage) -> None:
        self.leaders: Counter[BrokerId] = Counter()
        self.replicas: Counter[BrokerId] = Counter()
        self.in_sync: Counter[BrokerId] = Counter()
        for topic in image.topics.values():
            for partition in topic.partitions.values():
                self.leaders[partition.leader] += 1
                self.replicas.update(partition.replicas)
                self.in_sync.update(partition.isr)


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
