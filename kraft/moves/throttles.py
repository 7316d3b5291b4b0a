"""Set the throttle of moves, and remove it when they are over.

The only state is the configs of topics and brokers, as with kafka-reassign-partitions.sh. An entry of a topic's list
belongs to the moves of its partition. A rate belongs to all throttled moves of the cluster, and goes with the last
entry. So two people who move different partitions do not disturb each other, and a command that died is repaired by
running it again. See docs/adr/0059-a-throttle-goes-with-its-moves.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import Unreachable
from kraft.model.configs import ConfigSource
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.throttled_replicas import REPLICA_LISTS
from kraft.moves.throttled_replicas import (
    REPLICATION_RATES,
    PartitionMove,
    ReplicaLists,
    brokers_of,
    missing_entries,
    removal,
    throttled_replicas,
)

if TYPE_CHECKING:
    from kraft.client import Admin

DIRECTORIES_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
RATES: Final = (*REPLICATION_RATES, DIRECTORIES_RATE)

LIST_LENGTH_MAX: Final = 32_767
"""Longest value of a config in Kafka."""

Rates = Mapping[int, Mapping[str, str]]
"""Rates by broker and key."""

SHOWN_MAX: Final = 20
"""Entries of a list that one line shows."""


class CannotThrottle(KraftError):
    """The moves cannot be throttled; one line, with the remedy."""


class RemovedThrottles(Struct, frozen=True, kw_only=True):
    """Throttles that were removed and throttles that were kept, by topic or broker and key."""

    topics: Mapping[str, ReplicaLists]
    brokers: Rates
    kept: Mapping[str, ReplicaLists]
    rates_kept: Rates = {}
    away: tuple[int, ...] = ()
    """Brokers that did not say their rates."""


# --- set ------------------------------------------------------------------------------------------------------


def limit_moves(admin: Admin, moves: Mapping[TopicPartition, PartitionMove], bytes_per_second: int) -> list[str]:
    """Throttle the replication of these moves. Entries that others have set stay; returns sentences about their rates.

    Raises CannotThrottle before anything is set.
    """
    wanted = throttled_replicas(moves)
    configs = configs_of_topics(admin, wanted)
    missing = {topic: missing_entries(lists, configs[topic]) for topic, lists in wanted.items()}
    for topic, lists in missing.items():
        for key, entries in lists.items():
            if len(",".join([configs[topic].get(key, ""), *entries])) > LIST_LENGTH_MAX:
                raise CannotThrottle(f"too many replicas of topic {topic} to list: move fewer partitions at a time")
    for topic, lists in missing.items():
        if lists:
            # Appended at the controller, so that nobody's entries are lost if two commands run at once.
            admin.alter_topic_configs(topic, append={key: ",".join(entries) for key, entries in lists.items()})
    return limit_brokers(admin, brokers_of(moves), REPLICATION_RATES, bytes_per_second)


def limit_brokers(admin: Admin, brokers: Iterable[int], keys: Collection[str], bytes_per_second: int) -> list[str]:
    """Set these rates on each broker; return a sentence for each rate that this replaces."""
    rate = str(bytes_per_second)
    in_service = {broker.node_id for broker in admin.describe_cluster(topics=()).brokers}
    replaced: dict[tuple[str, str], list[int]] = {}
    for broker in brokers:
        before = (rates_of(admin, broker, keys) if broker in in_service else None) or {}
        # A broker that is away has the rate when it comes back.
        changed = {key: rate for key in keys if before.get(key) != rate}
        if changed:
            admin.alter_broker_configs(broker, changed)
        for key in changed.keys() & before.keys():
            replaced.setdefault((key, before[key]), []).append(broker)
    return [
        f"{key} of {_brokers(of_brokers)} was {value} and is {rate} now"
        for (key, value), of_brokers in sorted(replaced.items())
    ]


# --- remove ---------------------------------------------------------------------------------------------------


def remove_throttles(
    admin: Admin, over: Collection[TopicPartition], keys: Collection[str] = REPLICATION_RATES
) -> RemovedThrottles:
    """Remove the throttles of partitions whose moves are over, and of these rates those that nothing else needs.

    Topics that do not exist any more are skipped.
    """
    topics = admin.find_topics(sorted({partition.topic for partition in over}))
    plan = removal(configs_of_topics(admin, topics), over)
    for topic, lists in plan.removed.items():
        _remove_entries(admin, topic, lists, plan.kept.get(topic, {}))
    in_service = {broker.node_id for broker in admin.describe_cluster(topics=()).brokers}
    read = {broker: rates_of(admin, broker, keys) for broker in sorted(in_service)}
    rates = {broker: found for broker, found in read.items() if found}
    if not rates and not plan.removed:
        return RemovedThrottles(topics={}, brokers={}, kept=plan.kept)
    # A rate holds for the replicas of all topics, so the lists of all are read.
    kept = removal(configs_of_topics(admin), over).kept
    moving = brokers_moving_directories(admin) if _have_directories_rate(rates) else set()
    removed, staying = _divided(rates, REPLICATION_RATES if kept else (), moving)
    for broker, found in removed.items():
        admin.alter_broker_configs(broker, delete=list(found))
    if not kept and (kept := removal(configs_of_topics(admin), over).kept):
        # Another command has listed its replicas meanwhile, and may have set its rates before these were deleted.
        removed, given_back = _divided(removed, REPLICATION_RATES, set())
        _give_back(admin, given_back)
        staying = {**staying, **{broker: {**staying.get(broker, {}), **found} for broker, found in given_back.items()}}
    registered = {broker.broker_id for broker in admin.describe_brokers()}
    unread = {broker for broker, found in read.items() if found is None}
    return RemovedThrottles(
        topics=plan.removed,
        brokers=removed,
        kept=kept,
        rates_kept=staying,
        away=tuple(sorted(registered - in_service | unread)),
    )


def _divided(rates: Rates, needed: Collection[str], moving: Collection[int]) -> tuple[Rates, Rates]:
    """Return the rates that can go and those that stay: `needed` everywhere, and those of brokers `moving` replicas
    between their log directories.
    """
    going: dict[int, dict[str, str]] = {}
    staying: dict[int, dict[str, str]] = {}
    for broker, found in rates.items():
        for key, value in found.items():
            stays = key in needed or (key == DIRECTORIES_RATE and broker in moving)
            (staying if stays else going).setdefault(broker, {})[key] = value
    return going, staying


def _give_back(admin: Admin, rates: Rates) -> None:
    """Set the rates again that nobody has set since."""
    for broker, found in rates.items():
        since = rates_of(admin, broker, list(found)) or {}
        if lacking := {key: value for key, value in found.items() if key not in since}:
            admin.alter_broker_configs(broker, lacking)


def _remove_entries(admin: Admin, topic: str, lists: ReplicaLists, kept: ReplicaLists) -> None:
    """Remove entries from the lists of a topic. A list without any other is removed, and not left empty."""
    subtracted = {key: ",".join(entries) for key, entries in lists.items() if key in kept}
    admin.alter_topic_configs(topic, subtract=subtracted, delete=[key for key in lists if key not in kept])


def _have_directories_rate(rates: Rates) -> bool:
    return any(DIRECTORIES_RATE in found for found in rates.values())


def brokers_moving_directories(admin: Admin) -> set[int]:
    """Return the brokers that move replicas between their log directories, or do not say whether they do."""
    return {
        broker
        for broker, outcome in admin.describe_log_directories().items()
        if isinstance(outcome, KraftError)
        or any(replica.is_future_key for each in outcome for topic in each.topics for replica in topic.partitions)
    }


# --- read -----------------------------------------------------------------------------------------------------


def configs_of_topics(admin: Admin, topics: Iterable[str] | None = None) -> dict[str, dict[str, str]]:
    """Return the lists that are set on the topics themselves, by topic and key; on all topics without `topics`."""
    names = None if topics is None else list(topics)
    if names == []:
        return {}
    described = admin.describe_topics(names or (), config_names=REPLICA_LISTS, with_partitions=False)
    return {each.topic: each.configs for each in described}


def rates_of(admin: Admin, broker: int, keys: Collection[str]) -> dict[str, str] | None:
    """Return the rates of these that are set on the broker itself; None if it does not answer."""
    try:
        described = admin.describe_broker_configs(broker)
    except Unreachable:
        return None
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.BROKER_NOT_AVAILABLE:
            raise
        return None
    return {
        each.name: each.value or ""
        for each in described
        if each.name in keys and each.config_source == ConfigSource.DYNAMIC_BROKER_CONFIG
    }


# --- in words -------------------------------------------------------------------------------------------------


def in_words(removed: RemovedThrottles) -> list[str]:
    """Return lines that say what was removed; the first of each kind in the words of Kafka's tool."""
    lines = []
    if removed.brokers:
        lines.append(f"Clearing broker-level throttles on {_brokers(removed.brokers)}")
        brokers: dict[tuple[str, str], list[int]] = {}
        for broker, rates in removed.brokers.items():
            for each in rates.items():
                brokers.setdefault(each, []).append(broker)
        lines += [f"Removed {key}={value} of {_brokers(of)}." for (key, value), of in sorted(brokers.items())]
    if removed.topics:
        topics = sorted(removed.topics)
        lines.append(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
        lines += [f"Removed {_shown_lists(removed.topics[topic])} of topic {topic}." for topic in topics]
    return lines


def left_in_words(removed: RemovedThrottles) -> list[str]:
    """Return sentences about what stays throttled, and why."""
    lines = []
    if removed.kept and (removed.rates_kept or removed.topics):
        listed = "; ".join(f"{topic}: {_shown_lists(lists)}" for topic, lists in list(removed.kept.items())[:5])
        more = f"; and {len(removed.kept) - 5} more topics" if len(removed.kept) > 5 else ""
        rates = ", and so the rates of brokers stay" if removed.rates_kept else ""
        lines.append(
            f"other replicas are throttled still ({listed}{more}){rates}: verify their moves, or remove the "
            "lists with kraft configs alter TOPIC --delete-config KEY"
        )
    elif removed.rates_kept:
        lines.append(
            f"{DIRECTORIES_RATE} stays on {_brokers(removed.rates_kept)}, where replicas move between log "
            "directories: verify again later"
        )
    if removed.away and (removed.topics or removed.brokers):
        whose = "its rate" if len(removed.away) == 1 else "their rates"
        lines.append(f"{_brokers(removed.away)} did not answer, so {whose} may be left: verify again later")
    return lines


def _shown_lists(lists: ReplicaLists) -> str:
    return " and ".join(f"{key}={_shown_entries(entries)}" for key, entries in lists.items())


def _shown_entries(entries: list[str]) -> str:
    more = f" and {len(entries) - SHOWN_MAX} more" if len(entries) > SHOWN_MAX else ""
    return ",".join(entries[:SHOWN_MAX]) + more


def _brokers(brokers: Collection[int]) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {','.join(map(str, sorted(brokers)))}"
