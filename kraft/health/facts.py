"""Finds out the facts about a cluster from a client of it, all at once, and what it can within two seconds."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from kraft.client import Admin, KraftError, TopicPartition
from kraft.client.model.errors import NoActiveController
from kraft.health import hanging
from kraft.health.findings import ClusterFacts, ExpiringCertificate
from kraft.health.partitions import Shown, is_unavailable, min_insync_replicas, reassignment_of
from kraft.model.printable import counted
from kraft.model.throttled_replicas import REPLICA_LISTS, ReplicaNames
from kraft.server.config.values import GRPC

if TYPE_CHECKING:
    from kraft.client import ListedGroup
    from kraft.metadata.described_topics import TopicDescription
    from kraft.model.brokers import BrokerDescription
    from kraft.model.describe_quorum import QuorumDescription
    from kraft.tls.stores import TlsSettings
    from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition

Fact = TypeVar("Fact")

PROBE_MS: Final = 1_500
"""Longest wait for what a single broker is asked: one that hangs must not hide what the others know."""

HANGING_AFTER_MS: Final = 15 * 60_000
"""A transaction may hang if its producer has not written for longer: transaction.max.timeout.ms by default."""

FENCED_MAX: Final = 20
"""Brokers without heartbeats that are asked whether they answer."""

_LISTENERS: Final = (GRPC, "")
"""Of the addresses of a broker, those that this client may ask: by Kafka's protocol, they have no name."""

_MIN_ISR: Final = "min.insync.replicas"
_REPLICA_NAMES: Final = ReplicaNames()


class _Search(Struct, frozen=True):
    """Hanging transactions that were found, and why not all could be looked for."""

    hanging: Sequence[hanging.OpenInPartition] = ()
    problem: str = ""


OpenAdmin = Callable[[str, int], Admin]
"""Opens a client at other addresses, with a timeout in milliseconds; the caller closes it."""


def gather(
    admin: Admin,
    open_admin: OpenAdmin,
    timeout_ms: int,
    *,
    tls: TlsSettings | None = None,
    searches_transactions: bool = True,
    searched_max: int | None = None,
) -> ClusterFacts:
    """Ask the cluster. Raises Unreachable if no broker answers.

    The client's own timeout is for what may remain unknown, and PROBE_MS suits it. One client for all: what is asked
    with little time goes first to the broker that has answered, not to the first one that the user has named, which may
    be the one that hangs. The search for hanging transactions takes the longest; it, and groups, are left out for
    whoever does not need them; the search also where there are more partitions than `searched_max`. With `tls`,
    certificates are looked at. Once a broker has answered, the client's warnings that it waits are not logged: what
    they say is among the facts.
    """
    probe_ms = min(timeout_ms, PROBE_MS)
    with ThreadPoolExecutor() as pool, ExitStack() as silence:
        unknown: dict[str, str] = {}
        brokers = admin.describe_brokers(timeout_ms=timeout_ms)
        silence.enter_context(_silent(logging.getLogger("kraft.client")))
        quorum = pool.submit(_quorum, admin, timeout_ms)
        directories = pool.submit(admin.describe_log_directories, with_replicas=False)
        fenced = pool.submit(_fenced, open_admin, brokers, probe_ms)
        certificates = pool.submit(_expiring, brokers, tls, probe_ms)
        partitions = pool.submit(_partitions, admin, timeout_ms)
        found = _Search()
        groups: list[ListedGroup] = []
        if searches_transactions:
            listing = pool.submit(admin.list_groups)
            search = pool.submit(_search, admin, partitions, time.monotonic() + PROBE_MS / 1_000, searched_max)
            found = _known(search, found, "transactions", unknown)
            groups = _known(listing, groups, "groups", unknown)
        if found.problem:
            unknown["transactions"] = found.problem
        shown = partitions.result()
        hidden = hidden_replicas(brokers, shown)
        return ClusterFacts(
            quorum=quorum.result(),
            brokers=brokers,
            partitions=shown,
            hidden=hidden and hidden_replicas(admin.describe_brokers(timeout_ms=timeout_ms), shown),
            directories=_known(directories, {}, "disks", unknown),
            fenced=fenced.result(),
            hanging=found.hanging,
            rebalances={each.group_id: each.rebalances for each in groups if each.rebalances},
            certificates=certificates.result(),
            unknown=unknown,
        )


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _known(future: Future[Any], otherwise: Fact, subject: str, unknown: dict[str, str]) -> Fact:
    try:
        result: Fact = future.result()
    except KraftError as error:
        unknown[subject] = f"{subject} are unknown: {error}"
        return otherwise
    return result


def hidden_replicas(brokers: Sequence[BrokerDescription], partitions: Sequence[Shown]) -> int:
    """Return how many replicas the brokers have besides those that are shown.

    Whoever finds some asks for the brokers again: the topics of others may have been deleted in between.
    """
    seen = Counter(broker_id for each in partitions for broker_id in each.partition.replica_nodes)
    return sum(max(0, each.replicas - seen[each.broker_id]) for each in brokers)


def _quorum(admin: Admin, timeout_ms: int) -> QuorumDescription:
    try:
        return admin.describe_quorum(wait_for_leader=False, timeout_ms=timeout_ms)
    except NoActiveController as error:
        return error.description


def _fenced(
    open_admin: OpenAdmin, brokers: Sequence[BrokerDescription], timeout_ms: int
) -> dict[int, KraftError | None]:
    """Ask the first brokers of those that send no heartbeats, all at once; return why they did not answer, or None."""
    silent = [each for each in brokers if each.fenced and not each.fenced_by_operator][:FENCED_MAX]
    with ThreadPoolExecutor(FENCED_MAX) as pool:
        answers = pool.map(partial(_why_silent, open_admin, timeout_ms), silent)
        return dict(zip((each.broker_id for each in silent), answers, strict=True))


def _why_silent(open_admin: OpenAdmin, timeout_ms: int, broker: BrokerDescription) -> KraftError | None:
    addresses = [str(each).rpartition("://")[2] for each in broker.addresses if each.listener in _LISTENERS]
    try:
        with open_admin(",".join(addresses), timeout_ms) as admin:
            admin.describe_features()
    except KraftError as error:
        return error
    return None


def _expiring(
    brokers: Sequence[BrokerDescription], tls: TlsSettings | None, timeout_ms: int
) -> list[ExpiringCertificate]:
    if tls is None:
        return []
    from kraft.health.certificates import expiring

    return expiring(brokers, tls, timeout_ms / 1_000, datetime.now(UTC))


def _partitions(admin: Admin, timeout_ms: int) -> list[Shown]:
    # In this order a listed reassignment may already be complete in the description; `reassignment_of` checks that.
    reassignments = admin.list_partition_reassignments(timeout_ms=timeout_ms)
    topics = admin.describe_topics([], config_names=(_MIN_ISR, *REPLICA_LISTS), timeout_ms=timeout_ms)
    by_topic = _min_insync_replicas(admin, topics)
    return [
        Shown(
            topic=each.topic,
            partition=partition,
            reassignment=reassignment_of(reassignments, each, partition),
            min_insync_replicas=by_topic[each.topic],
            is_throttled=_is_throttled(each.configs, partition),
        )
        for each in topics
        for partition in each.metadata.partitions
    ]


def _is_throttled(configs: Mapping[str, str], partition: DescribeTopicPartitionsResponsePartition) -> bool:
    lists = [_REPLICA_NAMES.read(configs[key]) for key in REPLICA_LISTS if key in configs]
    return any(each.includes(partition.partition_index, broker) for each in lists for broker in partition.replica_nodes)


def _min_insync_replicas(admin: Admin, topics: Sequence[TopicDescription]) -> Mapping[str, int]:
    """Return the config of each topic. Those without a value of their own have the same one, which is asked once."""
    by_default = [each.topic for each in topics if _MIN_ISR not in each.configs]
    default = min_insync_replicas(admin, by_default[0]) if by_default else 0
    return {each.topic: int(each.configs.get(_MIN_ISR, default)) for each in topics}


def _search(admin: Admin, partitions: Future[list[Shown]], until_s: float, most: int | None) -> _Search:
    """Search the partitions that have a leader for hanging transactions, as many as there is time for.

    None is looked at if there are more than `most`.
    """
    led = [
        TopicPartition(each.topic, each.partition.partition_index)
        for each in partitions.result()
        if not is_unavailable(each)
    ]
    if most is not None and len(led) > most:
        return _Search()
    found: list[hanging.OpenInPartition] = []
    for begin in range(0, len(led), hanging.PARTITIONS_AT_ONCE):
        if time.monotonic() > until_s:
            return _Search(
                found, f"hanging transactions were looked for in {begin:,} of {counted(len(led), 'partition')} only"
            )
        some = led[begin : begin + hanging.PARTITIONS_AT_ONCE]
        result = hanging.find_hanging(admin, some, None, HANGING_AFTER_MS, int(time.time() * 1_000))
        found += result.hanging
        if result.failed:
            reason = next(iter(result.failed.values()))
            many = counted(len(result.failed), "partition")
            problem = f"hanging transactions could not be looked for in {many}; the first reason is: {reason}"
            return _Search(found, problem)
    return _Search(found)
