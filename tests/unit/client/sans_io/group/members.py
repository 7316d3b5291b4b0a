"""A member under test, and what it sends."""

from __future__ import annotations

from typing import Any

from kraft.client.model.settings import ConsumerSettings, settings_of
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.group.member import GroupRequest, GroupResponse, MemberMachine
from kraft.client.sans_io.group.ownership import Step
from kraft.model.errors import ErrorCode, Refusal

BACKOFF = Backoff(first_ms=100, max_ms=1_000, chance=lambda: 0.5)


def settings(**given: Any) -> ConsumerSettings:
    return settings_of(ConsumerSettings, "localhost:9094", {"group_id": "billing", **given})


def sent(member: MemberMachine, now_ms: int = 0) -> GroupRequest:
    """Return the request that the member sends now, which has to be one."""
    request = member.next_request(now_ms)
    assert request is not None
    return request


def exchange(member: MemberMachine, response: GroupResponse, now_ms: int = 0) -> GroupRequest:
    """Answer the request that the member sends now, and return it."""
    request = sent(member, now_ms)
    member.answered(response, now_ms)
    return request


def refuse(member: MemberMachine, code: ErrorCode, now_ms: int = 0) -> GroupRequest:
    request = sent(member, now_ms)
    member.refused(Refusal(code, "because"), now_ms)
    return request


def steps(member: MemberMachine) -> list[Step]:
    """Carry out the steps that are due, and return them."""
    done = []
    while (step := member.ownership.next_step()) is not None:
        done.append(step)
        member.step_done()
    return done
