from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from kraft.metadata.acls import AclEntry
from kraft.metadata.authorizer import Authorizer, CurrentAuthorizer, Decision, Requester
from kraft.model.access import Operation, PatternType, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.principal import Principal
from kraft.server.access.asker import Asker, Askers
from kraft.server.access.audit import AuditEvent
from kraft.server.apis.serving import guard_of
from tests.support.acl_entries import DENY, LITERAL, PREFIXED, acls_of, entry
from tests.support.cluster_images import cluster, with_topic
from tests.unit.server.access.cases import CASES, ROWS
from tests.unit.server.access.needs import Case, Need, on_topic, without

ALICE: Final = Principal("alice")
HOST: Final = "10.0.0.7"
ADMIN: Final = Principal("admin")

OPEN: Final = {
    "<ApiKey.API_VERSIONS: 18>",
    "ApiVersions",
    "DescribeFeatures",
    "<ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: 71>",
    "<ApiKey.PUSH_TELEMETRY: 72>",
    "<ApiKey.SASL_HANDSHAKE: 17>",
    "<ApiKey.SASL_AUTHENTICATE: 36>",
}
"""APIs that anybody may call, as in Kafka."""


def asker(entries: Iterable[AclEntry], principal: Principal = ALICE) -> Asker:
    image = replace(with_topic(cluster(1), [1]), acls=acls_of(entries))
    authorizers = CurrentAuthorizer(frozenset({str(ADMIN)}), allow_if_no_acl=False)
    return Askers(lambda: image, authorizers).of(principal, HOST)


def outcome(name: str, who: Asker) -> Any:
    """Return what the guard of a row answers, as plain values, or why it refuses."""
    case = CASES[name]
    config = SimpleNamespace(topics=SimpleNamespace(auto_create_enabled=True))
    image = with_topic(cluster(1), [1])
    askers = Askers(lambda: image, CurrentAuthorizer(frozenset(), allow_if_no_acl=False))
    side: Any = SimpleNamespace(image=lambda: image, config=config, askers=askers)
    guard = guard_of(ROWS[name], side)
    assert guard is not None

    async def proceed(request: Any) -> Any:
        return case.answer(request)

    async def ask() -> Any:
        try:
            return await guard(who, case.request, proceed)
        except Refusal as refusal:
            return refusal.error_code

    return asyncio.run(ask())


def allowing(need: Need, **more: Any) -> AclEntry:
    return entry(need.name, need.operation, resource_type=need.resource_type, **more)


def codes_in(value: Any) -> set[int]:
    """Return the error codes in an answer, or the one that it is."""
    if isinstance(value, ErrorCode):
        return {value}
    return {int(code) for code in re.findall(r"error_code=(?:<ErrorCode\.\w+: )?(\d+)", repr(value))}


def plain(value: Any) -> str:
    """Return what two answers are compared by: all but the operations that the client may do, which differ."""
    return re.sub(r"authorized_operations=-?\d+", "", repr(value))


def check(name: str) -> None:
    """Check a row: what is needed is enough, and each need is needed."""
    case = CASES[name]
    full = plain(outcome(name, asker([], ADMIN)))
    assert plain(outcome(name, asker(allowing(each[0]) for each in case.needs))) == full, "the needs are enough"
    for alternatives in case.needs:
        check_need(name, case, alternatives, full)


def check_need(name: str, case: Case, alternatives: tuple[Need, ...], full: Any) -> None:
    others = [each[0] for each in case.needs if each is not alternatives]
    for one in alternatives:
        assert plain(outcome(name, asker(map(allowing, (one, *others))))) == full, f"{one} is enough"
    # Everything else is allowed, weaker permissions for the same resource, too.
    refused = outcome(name, asker(without(alternatives)))
    assert plain(refused) != full, f"{alternatives[0]} is needed"
    code = alternatives[0].code
    if code is not None:
        assert code in codes_in(refused)
    # A DENY is stronger than anything.
    everything = list(without(()))
    denied = [allowing(each, permission=DENY) for each in alternatives]
    assert plain(outcome(name, asker([*everything, *denied]))) != full


def test_every_api_has_a_row_here_or_is_open_to_anybody() -> None:
    assert {name for name, api in ROWS.items() if api.needs or api.guard} == CASES.keys()
    assert {name for name, api in ROWS.items() if not api.needs and not api.guard} == OPEN


def test_what_a_row_needs_is_what_its_case_needs() -> None:
    """The table names each kind of resource with its operation; alternatives are in the guards."""
    for name, api in ROWS.items():
        if name in CASES and api.needs:
            needed = {(each.operation, each.resource_type) for one in CASES[name].needs for each in one}
            assert needed & set(api.needs), name


@pytest.mark.parametrize("name", CASES)
def test_without_an_acl_nothing_is_answered_that_needs_one(name: str) -> None:
    if CASES[name].needs:
        assert plain(outcome(name, asker([]))) != plain(outcome(name, asker([], ADMIN)))


@pytest.mark.parametrize("name", CASES)
def test_each_need_is_needed_and_all_are_enough(name: str) -> None:
    check(name)


def variants() -> Iterator[tuple[str, dict[str, Any], bool]]:
    yield "everybody", {"principal": "User:*"}, True
    yield "this host", {"host": HOST}, True
    yield "another host", {"host": "10.0.0.8"}, False
    yield "another user", {"principal": "User:bob"}, False


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.needs])
def test_acls_of_others_are_none(name: str) -> None:
    case = CASES[name]
    full = plain(outcome(name, asker([], ADMIN)))
    for what, more, is_enough in variants():
        found = plain(outcome(name, asker(allowing(each[0], **more) for each in case.needs)))
        assert (found == full) == is_enough, what


def pattern(need: Need, pattern_type: PatternType, name: str) -> AclEntry:
    return entry(name, need.operation, resource_type=need.resource_type, pattern_type=pattern_type)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.needs])
def test_patterns_count_as_they_match(name: str) -> None:
    needs = [each[0] for each in CASES[name].needs]
    full = plain(outcome(name, asker([], ADMIN)))
    assert plain(outcome(name, asker(pattern(each, LITERAL, "*") for each in needs))) == full
    assert plain(outcome(name, asker(pattern(each, PREFIXED, each.name[:3]) for each in needs))) == full
    assert plain(outcome(name, asker(pattern(each, PREFIXED, each.name + "x") for each in needs))) != full
    assert plain(outcome(name, asker(pattern(each, LITERAL, each.name[:3]) for each in needs))) != full


# --- mutations -------------------------------------------------------------------------------------------------------


def id_of(part: str | tuple[Need, ...]) -> str:
    return part if isinstance(part, str) else str(part[0])


NEEDS: Final = [(name, alternatives) for name, case in CASES.items() for alternatives in case.needs]


@pytest.mark.parametrize(("name", "alternatives"), NEEDS, ids=id_of)
def test_a_need_that_a_guard_no_longer_asks_for_is_noticed(name: str, alternatives: tuple[Need, ...]) -> None:
    forgotten = {(each.operation, each.resource_type) for each in alternatives}
    decide = Authorizer.decide

    def mutated(
        self: Authorizer, requester: Requester, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        decision = decide(self, requester, operation, resource_type, name)
        return Decision(True, decision.reason) if (operation, resource_type) in forgotten else decision

    with patch.object(Authorizer, "decide", mutated), pytest.raises(AssertionError):
        check(name)


WEAKER: Final = {
    Operation.READ: Operation.DESCRIBE,
    Operation.WRITE: Operation.DESCRIBE,
    Operation.DELETE: Operation.DESCRIBE,
    Operation.ALTER: Operation.DESCRIBE,
    Operation.CREATE: Operation.DESCRIBE,
    Operation.CLUSTER_ACTION: Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
}


@pytest.mark.parametrize(
    ("name", "alternatives"),
    [each for each in NEEDS if any(one.operation in WEAKER for one in each[1])],
    ids=id_of,
)
def test_a_need_that_a_guard_weakens_is_noticed(name: str, alternatives: tuple[Need, ...]) -> None:
    weakened = {(each.operation, each.resource_type) for each in alternatives if each.operation in WEAKER}
    decide = Authorizer.decide

    def mutated(
        self: Authorizer, requester: Requester, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        asked = WEAKER[operation] if (operation, resource_type) in weakened else operation
        return decide(self, requester, asked, resource_type, name)

    with patch.object(Authorizer, "decide", mutated), pytest.raises(AssertionError):
        check(name)


CONFIGS_OF_A_NEW_TOPIC: Final = ("CreateTopics", on_topic(Operation.DESCRIBE_CONFIGS))
"""They are left out of the answer to a creation, which succeeds."""


def noted_in(name: str, entries: Iterable[AclEntry]) -> list[AuditEvent]:
    """Return what the audit is told of a case under these ACLs."""
    noted: list[AuditEvent] = []
    image = replace(with_topic(cluster(1), [1]), acls=acls_of(entries))
    askers = Askers(lambda: image, CurrentAuthorizer(frozenset(), allow_if_no_acl=False))
    outcome(name, askers.told_to(lambda event, _: noted.append(event), "SASL").of(ALICE, HOST))
    return noted


@pytest.mark.parametrize("name", CASES)
def test_whatever_a_guard_tells_that_is_refused_it_has_noted(name: str) -> None:
    for alternatives in CASES[name].needs:
        noted = noted_in(name, without(alternatives))
        code = alternatives[0].code
        if code is None or (name, alternatives[0]) == CONFIGS_OF_A_NEW_TOPIC:
            assert noted == [], "what a listing leaves out is no refusal"
        else:
            assert code in {event.error_code for event in noted}, alternatives[0]
