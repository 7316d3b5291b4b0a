"""The committed offsets compared with a dict: after any operations in any order both hold the same.

All records are kept. Replayed from the start they give the same state, also after compaction of any part of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec import Struct

from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import OffsetCommitKey
from kraft.coordinator.offsets.commit import NO_RETENTION_TIME, commit
from kraft.coordinator.offsets.committed_offsets import NO_OFFSETS
from kraft.coordinator.offsets.decided_offsets import DecidedOffsets
from kraft.coordinator.offsets.deletion import delete, delete_group, on_topics_deleted
from kraft.coordinator.offsets.expiry import expired
from kraft.coordinator.offsets.fetch import fetch
from kraft.coordinator.offsets.group_facts import SIMPLE_GROUP, GroupFacts
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId
from kraft.wire.schema.offset_commit import OffsetCommitRequestPartition
from tests.support.offset_commands import asking, deletions, offsets
from tests.support.searches import assert_met
from tests.unit.coordinator.offsets.building import (
    METADATA_MAX,
    ORDERS,
    ORDERS_AGAIN,
    committing,
    contents,
    replayed,
)

GROUPS, TOPICS, PARTITIONS = ("billing", "audit"), ("orders", "bills"), (0, 1, 2)
RETENTION_MS = 100

groups, topics = st.sampled_from(GROUPS), st.sampled_from(TOPICS)
topic_ids = st.sampled_from([None, ORDERS, ORDERS_AGAIN])
subscriptions = st.sampled_from([frozenset[str](), frozenset({"orders"}), frozenset({"bills"}), None])
commits = st.lists(
    st.builds(
        committing,
        st.sampled_from(PARTITIONS),
        st.integers(-2, 9),
        st.integers(-1, 3),
        st.none() | st.text("xé", max_size=METADATA_MAX + 2),
    ),
    min_size=2,
    max_size=6,
)

has_offsets = precondition(lambda self: bool(self.model))

Place = tuple[str, str, int]


class Row(Struct, frozen=True):
    """The model's committed offset, with the numbers that Kafka uses for none."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: TopicId | None


def compacted(records: Iterable[GroupRecord], *, keep_tombstones: bool) -> list[GroupRecord]:
    """The newest record of each key, in the order of the log."""
    newest: dict[Place, GroupRecord] = {}
    for record in records:
        assert isinstance(record.key, OffsetCommitKey)
        place = (record.key.group, record.key.topic, record.key.partition)
        newest.pop(place, None)
        newest[place] = record
    return [record for record in newest.values() if keep_tombstones or record.value is not None]


class OffsetsAgainstDict(RuleBasedStateMachine):
    happened: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1000
        self.offsets = NO_OFFSETS
        self.log: list[GroupRecord] = []
        self.model: dict[Place, Row] = {}

    # --- operations ------------------------------------------------------------------------------------------

    @rule(
        group=groups,
        topic=topics,
        partitions=commits,
        topic_id=topic_ids,
        retention_time_ms=st.just(NO_RETENTION_TIME) | st.integers(0, 300),
    )
    def commit(
        self,
        group: str,
        topic: str,
        partitions: list[OffsetCommitRequestPartition],
        topic_id: TopicId | None,
        retention_time_ms: int,
    ) -> None:
        decided = commit(
            group,
            [offsets(topic, *partitions, topic_id=topic_id)],
            now_ms=self.now_ms,
            metadata_length_max=METADATA_MAX,
            retention_time_ms=retention_time_ms,
        )
        codes = []
        for each in partitions:
            metadata = each.committed_metadata or ""
            if len(metadata) > METADATA_MAX:
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            codes.append(ErrorCode.NONE)
            self.model[group, topic, each.partition_index] = (
                Row(each.committed_offset, each.committed_leader_epoch, metadata, self.now_ms, -1, topic_id)
                if retention_time_ms == NO_RETENTION_TIME
                else Row(each.committed_offset, -1, metadata, self.now_ms, self.now_ms + retention_time_ms, None)
            )
        self.check_codes(decided, codes)
        self.append(decided.records)

    @has_offsets
    @rule(group=groups, topic=topics, partitions=st.lists(st.sampled_from(PARTITIONS)), subscribed=subscriptions)
    def delete(self, group: str, topic: str, partitions: list[int], subscribed: frozenset[str] | None) -> None:
        facts = GroupFacts(empty=False, subscribed_topics=subscribed)
        decided = delete(self.offsets, group, facts, [deletions(topic, *partitions)])
        refused = subscribed is None or topic in subscribed
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if refused else ErrorCode.NONE
        self.check_codes(decided, [code] * len(partitions))
        if not refused:
            self.remove("deleted", ((group, topic, partition) for partition in partitions))
        self.append(decided.records)

    @has_offsets
    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        self.remove("deleted with the group", [place for place in self.model if place[0] == group])
        self.append(delete_group(self.offsets, group).records)

    @has_offsets
    @rule(deleted=st.dictionaries(topics, st.sampled_from([ORDERS, ORDERS_AGAIN]), min_size=1))
    def topics_are_deleted(self, deleted: dict[str, TopicId]) -> None:
        found = list(on_topics_deleted(self.offsets, GROUPS, deleted))
        assert [each.group for each in found] == list(GROUPS)
        gone = [
            place
            for place, row in self.model.items()
            if place[1] in deleted and row.topic_id in (None, deleted[place[1]])
        ]
        self.remove("deleted with the topic", gone)
        self.append([record for each in found for record in each.records])

    @has_offsets
    @rule(
        group=groups,
        ms=st.integers(0, 2 * RETENTION_MS),
        subscribed=subscriptions,
        empty=st.booleans(),
        expire=st.booleans(),
        empty_for_ms=st.none() | st.integers(0, 2 * RETENTION_MS),
    )
    def expire(
        self,
        group: str,
        ms: int,
        subscribed: frozenset[str] | None,
        empty: bool,
        expire: bool,
        empty_for_ms: int | None,
    ) -> None:
        self.now_ms += ms
        empty_since_ms = None if empty_for_ms is None else self.now_ms - empty_for_ms
        facts = GroupFacts(
            empty=empty, subscribed_topics=subscribed, offsets_expire=expire, empty_since_ms=empty_since_ms
        )
        found, others = expired(
            self.offsets, [(group, facts), ("none", SIMPLE_GROUP)], now_ms=self.now_ms, retention_ms=RETENTION_MS
        )
        assert not others.tombstones.records
        gone = []
        for place, row in self.model.items():
            if place[0] != group or not expire or subscribed is None or place[1] in subscribed:
                continue
            end_ms = row.expire_timestamp_ms
            if end_ms == -1:
                since_ms = row.commit_timestamp_ms if empty_since_ms is None else empty_since_ms
                end_ms = RETENTION_MS + max(row.commit_timestamp_ms, since_ms)
            if end_ms <= self.now_ms:
                gone.append(place)
        self.remove("expired", gone)
        self.append(found.tombstones.records)
        removable = empty and not any(place[0] == group for place in self.model)
        assert found.group_removable is removable
        self.happened["removable"] += removable

    # --- what holds after each operation ---------------------------------------------------------------------

    @invariant()
    def both_hold_the_same(self) -> None:
        held = {
            place: Row(
                each.offset,
                each.leader_epoch,
                each.metadata,
                each.commit_timestamp_ms,
                -1 if each.expire_timestamp_ms is None else each.expire_timestamp_ms,
                each.topic_id,
            )
            for place, each in contents(self.offsets).items()
        }
        assert held == self.model
        assert set(self.offsets.groups) == {place[0] for place in self.model}, "no group is left without offsets"

    @invariant()
    def a_fetch_finds_what_the_dict_holds(self) -> None:
        asked = [asking(topic, *PARTITIONS, topic_id=ORDERS) for topic in TOPICS]
        for group in GROUPS:
            held = {
                (group, topic, partition): (each.offset, each.leader_epoch, each.metadata)
                for topic, partition, each in self.offsets.partitions(group)
            }
            assert held == {
                place: (row.offset, row.leader_epoch, row.metadata)
                for place, row in self.model.items()
                if place[0] == group
            }
            for topic in fetch(self.offsets, group, asked):
                for each in topic.partitions:
                    place = (group, topic.name, each.partition_index)
                    known = place in self.model and self.model[place].topic_id in (None, ORDERS)
                    expected = held[place] if known else (-1, -1, "")
                    assert (each.committed_offset, each.committed_leader_epoch, each.metadata) == expected

    @rule(keep_tombstones=st.booleans(), cut=st.integers(0, 100))
    def replaying_the_log_gives_the_same_state(self, keep_tombstones: bool, cut: int) -> None:
        """Compaction cleans the log up to some offset, and removes tombstones once nothing older is left."""
        cleaned = len(self.log) * cut // 100
        log = compacted(self.log[:cleaned], keep_tombstones=keep_tombstones) + self.log[cleaned:]
        assert replayed(self.log) == self.offsets
        assert replayed(log) == self.offsets
        assert replayed(compacted(self.log, keep_tombstones=keep_tombstones)) == self.offsets
        self.happened["compacted"] += len(log) < len(self.log)

    # --- steps of the operations -----------------------------------------------------------------------------

    def append(self, records: Sequence[GroupRecord]) -> None:
        self.log += records
        self.offsets = replayed(records, self.offsets)

    def remove(self, why: str, gone: Iterable[Place]) -> None:
        for place in gone:
            self.happened[why] += self.model.pop(place, None) is not None

    def check_codes(self, decided: DecidedOffsets, codes: Sequence[ErrorCode]) -> None:
        assert decided.codes == tuple(codes)
        self.happened.update(code.name for code in codes)


def test_after_any_operations_the_state_is_that_of_a_dict_and_that_of_its_compacted_log() -> None:
    OffsetsAgainstDict.happened.clear()
    run_state_machine_as_test(
        OffsetsAgainstDict,
        settings=settings(
            max_examples=100,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
    everything = {
        "NONE",
        "OFFSET_METADATA_TOO_LARGE",
        "GROUP_SUBSCRIBED_TO_TOPIC",
        "deleted",
        "deleted with the group",
        "deleted with the topic",
        "expired",
        "removable",
        "compacted",
    }
    assert set(+OffsetsAgainstDict.happened) <= everything
    assert_met(everything, OffsetsAgainstDict.happened)
