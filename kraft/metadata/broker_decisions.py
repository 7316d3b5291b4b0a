"""Decisions about brokers: registration, heartbeats, fencing, controlled shutdown, producer ids.

A Refusal means that nothing changes; the caller turns it into the error code of its response. Requests of a broker that
is not registered are refused with BROKER_ID_NOT_REGISTERED, those of an earlier registration with STALE_BROKER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.decision import DecideRecords, Decision, RecordsOnDemand, decided_in_slices
from kraft.metadata.features import SUPPORTED_FEATURES, level_of, range_of, words
from kraft.metadata.image import MetadataImage
from kraft.metadata.leader_election import changes_when_gone, changes_when_shutting_down, changes_when_unfenced
from kraft.metadata.records import (
    BrokerFenced,
    BrokerShuttingDown,
    BrokerUnfenced,
    ClusterInitialised,
    FeatureLevelSet,
    MetadataRecord,
    ProducerIdsAllocated,
    RegisterBroker,
)
from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest, ProducerIdBlock
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResult
from kraft.model.ids import BrokerEpoch, BrokerId, ProducerId
from kraft.model.register_broker import RegisterBrokerRequest, RegistrationResult

PRODUCER_ID_BLOCK_SIZE = 1_000


def initialise_cluster(
    image: MetadataImage, cluster_id: str, first_records: Sequence[MetadataRecord] = ()
) -> Decision[None]:
    """Give a new cluster its id, the latest feature levels and `first_records`, all at once.

    Once it has an id, any other id is refused.
    """
    if not image.cluster_id:
        levels = [
            FeatureLevelSet(feature=supported.feature, level=supported.max_level)
            for supported in SUPPORTED_FEATURES.values()
            if supported.max_level > level_of(image, supported.feature)
        ]
        return Decision(records=[ClusterInitialised(cluster_id=cluster_id), *levels, *first_records], response=None)
    _check_cluster_id(image, cluster_id)
    return Decision(records=[], response=None)


def register_broker(
    image: MetadataImage,
    request: RegisterBrokerRequest,
    *,
    session_is_alive: bool,
    defaults: TopicConfig = KAFKA_DEFAULTS,
) -> Decision[RegistrationResult]:
    """Register a broker's process under a new epoch, fenced until it has caught up with the metadata.

    A process that asks again (its response was lost) gets the same epoch again. Another process under the same id is
    refused while the earlier one's session is alive, unless that one is shutting down or had one of the new one's log
    directories: a process locks its directories, so the earlier one has ended, and a restart need not wait.

    A new process may not hold what the one before held: it leaves every ISR that has other members, and must be found
    in sync under its new epoch (KIP-903). The last member of an ISR stays, without leading until it is unfenced. A
    clean shutdown needs no exception: the broker left its ISRs and moved its leaderships while it stopped. The broker
    still has what it had synced, so it stays eligible (KIP-966), unless it reports that it may have lost records, or
    none of its log directories was registered before. It reports a single lost directory by `fail_replicas`.
    """
    _check_cluster_id(image, request.cluster_id)
    _check_registration(request)
    _check_features(image, request)
    earlier = image.broker(request.broker_id)
    if earlier is not None and earlier.incarnation_id == request.incarnation_id:
        return Decision(records=[], response=RegistrationResult(broker_epoch=earlier.broker_epoch))
    if earlier is not None and session_is_alive and not _may_be_replaced(earlier, request):
        problem = (
            f"broker id {request.broker_id} is in use by another running process: give each node its own node.id, "
            "or, after a crash, retry when that process's session has expired"
        )
        raise Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION, problem)
    is_trusted = _has_all_synced_records(request, earlier)
    registration = RegisterBroker(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=image.next_broker_epoch,
        endpoints=request.endpoints,
        rack=request.rack,
        directory_ids=request.directory_ids,
        features=request.features,
    )
    return Decision(
        records=_with_changes(
            registration,
            image,
            lambda part: changes_when_gone(part, request.broker_id, defaults, trusted=is_trusted),
        ),
        response=RegistrationResult(broker_epoch=registration.broker_epoch),
    )


def heartbeat(
    image: MetadataImage,
    request: BrokerHeartbeatRequest,
    *,
    caught_up_from_index: int,
    committed_index: int,
    defaults: TopicConfig = KAFKA_DEFAULTS,
    newcomers: Collection[BrokerId] = (),
) -> Decision[BrokerHeartbeatResult]:
    """Decide on a heartbeat: unfence a broker that has caught up, or continue a controlled shutdown.

    The broker has caught up once it has applied the entry `caught_up_from_index`: its own registration, or a later one.
    One of the `newcomers` gets the leaderships of a broker that shuts down only if no other can.
    """
    registration = _registered(image, request.broker_id, request.broker_epoch)
    records: Sequence[MetadataRecord] = []
    is_fenced, may_stop = registration.fenced, False
    if request.wants_shutdown:
        stopping = begin_controlled_shutdown(
            image, request.broker_id, request.broker_epoch, defaults, newcomers=newcomers
        )
        records = stopping.records
        may_stop = stopping.response
        is_fenced = is_fenced or may_stop
    elif request.metadata_index >= caught_up_from_index:
        unfencing = unfence_broker(image, request.broker_id, request.broker_epoch, defaults)
        records = unfencing.records
        is_fenced = is_fenced and not unfencing.records
    response = BrokerHeartbeatResult(is_fenced=is_fenced, may_stop=may_stop, committed_index=committed_index)
    return Decision(records=records, response=response)


def unfence_broker(
    image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch, defaults: TopicConfig = KAFKA_DEFAULTS
) -> Decision[None]:
    """Unfence a broker, so that it may lead and join ISRs. The caller checks that it has caught up with the metadata.

    Does nothing for a broker that is not fenced, has an operator fence, or is shutting down (it has to register again).
    """
    registration = _registered(image, broker_id, broker_epoch)
    if not registration.fenced or registration.fenced_by_operator or registration.in_controlled_shutdown:
        return Decision(records=[], response=None)
    unfenced = BrokerUnfenced(broker_id=broker_id, broker_epoch=broker_epoch)
    records = _with_changes(unfenced, image, lambda part: changes_when_unfenced(part, broker_id, defaults))
    return Decision(records=records, response=None)


def fence_broker(
    image: MetadataImage,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    defaults: TopicConfig = KAFKA_DEFAULTS,
    *,
    newcomers: Collection[BrokerId] = (),
) -> Decision[None]:
    """Fence a broker whose session has expired or whose process is gone; does nothing for one that is fenced.

    One of the `newcomers` gets its leaderships only if no other can.
    """
    registration = _registered(image, broker_id, broker_epoch)
    if registration.fenced:
        return Decision(records=[], response=None)
    fenced = BrokerFenced(broker_id=broker_id, broker_epoch=broker_epoch)
    records = _with_changes(
        fenced, image, lambda part: changes_when_gone(part, broker_id, defaults, newcomers=newcomers)
    )
    return Decision(records=records, response=None)


def begin_controlled_shutdown(
    image: MetadataImage,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    defaults: TopicConfig = KAFKA_DEFAULTS,
    *,
    newcomers: Collection[BrokerId] = (),
) -> Decision[bool]:
    """Move the broker's leaderships to other brokers; the response is True once it may stop.

    The response is False while leaderships are moved, so that the new leaders know before the old one stops; the broker
    asks again. With the response True the broker is fenced: clients are no longer sent to it, and partitions that only
    it holds have no leader until it is back. One of the `newcomers` gets a leadership only if no other can.
    """
    registration = _registered(image, broker_id, broker_epoch)
    announced = BrokerShuttingDown(broker_id=broker_id, broker_epoch=broker_epoch)
    if registration.fenced:
        # A fenced broker leads nothing. A heartbeat that is still under way must not unfence it.
        return Decision(records=[] if registration.in_controlled_shutdown else [announced], response=True)
    moved = RecordsOnDemand(
        decided_in_slices(
            image, lambda part: changes_when_shutting_down(part, broker_id, defaults, newcomers=newcomers)
        ),
    )
    if not registration.in_controlled_shutdown:
        return Decision(records=RecordsOnDemand(chain([announced], moved)), response=False)
    if moved:
        return Decision(records=moved, response=False)
    return Decision(records=fence_broker(image, broker_id, broker_epoch, defaults).records, response=True)


def allocate_producer_ids(image: MetadataImage, request: AllocateProducerIdsRequest) -> Decision[ProducerIdBlock]:
    """Allocate the next block of producer ids to this broker."""
    _registered(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    allocated = ProducerIdsAllocated(next_producer_id=ProducerId(first + PRODUCER_ID_BLOCK_SIZE))
    return Decision(records=[allocated], response=ProducerIdBlock(first=first, count=PRODUCER_ID_BLOCK_SIZE))


def _with_changes(first: MetadataRecord, image: MetadataImage, decide: DecideRecords) -> RecordsOnDemand:
    return RecordsOnDemand(chain([first], decided_in_slices(image, decide)))


def _check_cluster_id(image: MetadataImage, cluster_id: str) -> None:
    if cluster_id != image.cluster_id:
        problem = f"the node is of cluster '{cluster_id}', but this is cluster '{image.cluster_id}': check cluster.id"
        raise Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, problem)


def _check_registration(request: RegisterBrokerRequest) -> None:
    if request.broker_id < 0:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"broker id {request.broker_id} is negative: check node.id")
    listeners = [endpoint.listener for endpoint in request.endpoints]
    if not listeners or len(set(listeners)) < len(listeners):
        problem = (
            f"broker {request.broker_id} advertises listeners {listeners}: advertise at least one, and each only once"
        )
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def _check_features(image: MetadataImage, request: RegisterBrokerRequest) -> None:
    for feature in image.features:
        level, supported = level_of(image, feature), range_of(request.features, feature)
        if not supported.min_level <= level <= supported.max_level:
            problem = (
                f"broker {request.broker_id} supports {feature} {words(supported)}, but the cluster is at level "
                f"{level}: install a version of Kraft on that node that supports it"
            )
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, problem)


def _has_all_synced_records(request: RegisterBrokerRequest, earlier: BrokerRegistration | None) -> bool:
    return not request.may_have_lost_records and (earlier is None or _shares_a_directory(request, earlier))


def _may_be_replaced(earlier: BrokerRegistration, request: RegisterBrokerRequest) -> bool:
    return earlier.in_controlled_shutdown or _shares_a_directory(request, earlier)


def _shares_a_directory(request: RegisterBrokerRequest, earlier: BrokerRegistration) -> bool:
    # One common directory is enough: others may have failed or been added since.
    return not set(request.directory_ids).isdisjoint(earlier.directory_ids)


def _registered(image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> BrokerRegistration:
    """Return the broker's registration. Raises Refusal if the request was made under another one."""
    if broker_epoch >= image.next_broker_epoch:
        # The registration was committed after our image, so another controller is active: this one must not decide.
        raise Refusal(ErrorCode.NOT_CONTROLLER, "the broker has newer metadata than this controller")
    registration = image.broker(broker_id)
    if registration is None:
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    if registration.broker_epoch != broker_epoch:
        problem = f"broker {broker_id} is registered under broker epoch {registration.broker_epoch}, not {broker_epoch}"
        raise Refusal(ErrorCode.STALE_BROKER_EPOCH, problem)
    return registration
