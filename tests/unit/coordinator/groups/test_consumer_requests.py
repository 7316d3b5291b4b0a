from __future__ import annotations

import pytest

from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.coordinator.classic.timers import SessionTimer
from kraft.coordinator.consumer.group import ResolvedRegex
from kraft.coordinator.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatResponse
from kraft.coordinator.groups import consumer_requests
from kraft.coordinator.groups.commands import ResolveRegexes
from kraft.coordinator.groups.replicated import regexes_in_use, unresolved_regexes
from kraft.model.errors import ErrorCode
from kraft.model.name_regex import regex_error
from tests.unit.coordinator.groups.coordinator import GROUP, Coordinator, joining_consumer, replayed


def test_a_member_joins_a_new_group() -> None:
    shard = Coordinator()
    response = shard.join_consumer()
    assert response.assignment is not None
    assert len(response.assignment) == 2


def test_a_member_cannot_join_a_classic_group_that_has_members() -> None:
    shard = Coordinator()
    shard.stable()
    assert shard.refusal(joining_consumer()) is ErrorCode.GROUP_ID_NOT_FOUND
    assert GROUP in shard.volatile.classic


def test_a_request_is_checked_before_its_group() -> None:
    shard = Coordinator()
    shard.stable()
    assert shard.refusal(joining_consumer(server_assignor="best")) is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_only_a_join_changes_the_kind_of_an_empty_group() -> None:
    shard = Coordinator()
    shard.empty_classic()
    stale = ConsumerHeartbeat(group_id=GROUP, member_id="m", member_epoch=3)
    assert shard.refusal(stale) is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.refusal(joining_consumer(rebalance_timeout_ms=-1)) is ErrorCode.INVALID_REQUEST
    assert GROUP in shard.groups.classic


def test_ids_given_out_for_a_classic_group_become_unknown_with_it() -> None:
    shard = Coordinator()
    member_id = shard.answer(shard.join(), MemberIdRequired).member_id
    shard.join_consumer()
    assert SessionTimer(GROUP, member_id) not in shard.timers
    assert not shard.volatile.classic


def test_a_regex_is_checked_when_the_first_member_comes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def noted(regex: str) -> str | None:
        checked.append(regex)
        return regex_error(regex)

    monkeypatch.setattr(consumer_requests, "regex_error", noted)
    shard = Coordinator()
    assert shard.refusal(joining_consumer(topic_regex="(")) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not shard.groups.consumer
    shard.join_consumer("one", topic_regex="ord.*")
    shard.join_consumer("two", topic_regex="ord.*")
    assert checked == ["(", "ord.*"]


def test_the_host_finds_regexes_to_resolve_and_those_in_use() -> None:
    shard = Coordinator()
    shard.join_consumer("one", topics=None, topic_regex="ord.*")
    shard.join_consumer("other", group_id="shipping")
    assert unresolved_regexes(shard.groups) == {GROUP: {"ord.*"}}
    resolved = ResolvedRegex(topics=frozenset({"orders"}), version=1, timestamp_ms=1)
    shard.answer(shard.request(ResolveRegexes(group_id=GROUP, results={"ord.*": resolved})), type(None))
    assert unresolved_regexes(shard.groups) == {}
    assert regexes_in_use(shard.groups) == {GROUP: {"ord.*"}}
    beat = ConsumerHeartbeat(group_id=GROUP, member_id="one", member_epoch=1, owned=frozenset())
    assert shard.answer(shard.request(beat), ConsumerHeartbeatResponse).assignment
    shard.leave_consumer("one")
    assert regexes_in_use(shard.groups) == {}
    assert replayed(shard.log) == shard.groups


def test_results_for_a_group_that_is_gone_are_ignored() -> None:
    shard = Coordinator()
    shard.answer(shard.request(ResolveRegexes(group_id="gone", results={})), type(None))
    assert not shard.log


def test_a_text_that_fits_into_no_record_is_refused() -> None:
    shard = Coordinator()
    assert shard.refusal(joining_consumer(member_id="ü" * 16_384)) is ErrorCode.INVALID_REQUEST
    assert shard.refusal(joining_consumer(topic_regex="a" * 32_768)) is ErrorCode.INVALID_REQUEST
    assert shard.refusal(joining_consumer(instance_id="a" * 32_768)) is ErrorCode.INVALID_REQUEST
    assert shard.refusal(joining_consumer(rack_id="a" * 32_768)) is ErrorCode.INVALID_REQUEST
    assert shard.refusal(joining_consumer(client_id="a" * 32_768)) is ErrorCode.INVALID_REQUEST
    assert shard.refusal(joining_consumer(topics=frozenset({"orders", "a" * 32_768}))) is ErrorCode.INVALID_REQUEST
    assert shard.refusal(joining_consumer(group_id="a" * 32_768)) is ErrorCode.INVALID_GROUP_ID
    assert not shard.log
    shard.join_consumer(member_id="a" * 32_000, group_id="a" * 32_767)
    assert len(shard.groups.consumer) == 1
