"""What the members of a group have read, committed and owned, as their events tell; and what must not be among it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from tests.support.kafka.group_members.member import Member
from tests.support.kafka.group_members.observer import missing_offsets


class Gap(Struct, frozen=True, kw_only=True):
    """The longest time in which nobody read a record of the partition."""

    partition: int
    length_s: float


class History:
    """Checks events of all members that a group has had."""

    def gaps(self, members: Sequence[Member], since_s: float) -> list[Gap]:
        """By partition; the first one begins with the last read before, if there was one."""
        read_at_s: dict[int, list[float]] = {}
        for member in members:
            for event in tuple(member.events):
                if event.event == "read":
                    for partition, _, _ in event.ranges:
                        read_at_s.setdefault(partition, []).append(event.at_s)
        gaps = []
        for partition, times_s in sorted(read_at_s.items()):
            before = [each for each in times_s if each <= since_s]
            around = sorted(each for each in times_s if each > since_s)
            if before:
                around = [max(before), *around]
            gaps.append(
                Gap(
                    partition=partition,
                    length_s=max((later - earlier for earlier, later in pairwise(around)), default=0.0),
                )
            )
        return gaps

    def check_nobody_gave_up(self, members: Sequence[Member], stayed: Collection[int], since_s: float) -> None:
        """Of the partitions that stayed with their member, none was revoked meanwhile. Raises AssertionError."""
        for member in members:
            for event in tuple(member.events):
                if event.at_s >= since_s and event.event in ("revoked", "lost"):
                    given_up = set(event.partitions) & set(stayed) & member.owned
                    assert not given_up, f"{member.name} gave up {sorted(given_up)}, which it kept"

    def check(self, members: Sequence[Member], ends: Mapping[int, int]) -> None:
        """Every record below the ends was read, and none was committed by two. Raises AssertionError."""
        missing = missing_offsets(members, ends)
        assert not missing, f"not read, by partition: {missing}"
        committed: dict[int, list[tuple[int, int, str]]] = {}
        for member in members:
            for partition, first, end in member.committed:
                committed.setdefault(partition, []).append((first, end, member.name))
        for partition, ranges in committed.items():
            for (_, end, one), (first, _, other) in pairwise(sorted(ranges)):
                assert first >= end, f"{one} and {other} committed {first} to {end} of partition {partition}"
