from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kraft.metadata import authorizer
from kraft.metadata.acls import NO_ACLS, AclEntry, AclsDraft, acl_record
from kraft.metadata.authorizer import Authorizer, CurrentAuthorizer, Decision, Reason, Requester
from kraft.metadata.records import AclAdded, AclRemoved
from kraft.model.access import Operation, ResourceType
from kraft.model.principal import Principal
from tests.support.acl_entries import ALLOW, DENY, ENTRIES, HOSTS, LITERAL, NAMES, PREFIXED, PRINCIPALS, acls_of, entry

ALICE: Final = Requester.of(Principal("alice"), "10.0.0.1")
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP

REQUESTERS: Final = st.builds(
    Requester, PRINCIPALS.filter(lambda each: each != "User:*"), HOSTS.filter(lambda each: each != "*")
)
ASKED: Final = st.tuples(REQUESTERS, st.sampled_from([*Operation][2:]), st.sampled_from([TOPIC, GROUP]), NAMES)
Question = tuple[Requester, Operation, ResourceType, str]


def asked(*entries: AclEntry, super_users: Set[str] = frozenset(), allow_if_no_acl: bool = False) -> Authorizer:
    return Authorizer(acls_of(entries), super_users, allow_if_no_acl=allow_if_no_acl)


# --- the same by looking at all ACLs, as Kafka's documentation says it -----------------------------------------------


def concerns(acl: AclEntry, name: str) -> bool:
    if acl.pattern_type is PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def is_for(acl: AclEntry, requester: Requester) -> bool:
    return acl.principal in (requester.principal, "User:*") and acl.host in (requester.host, "*")


def names(acl: AclEntry, operation: Operation) -> bool:
    if acl.operation in (operation, Operation.ALL):
        return True
    if acl.permission is DENY:
        return False
    if operation is Operation.DESCRIBE:
        return acl.operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    return operation is Operation.DESCRIBE_CONFIGS and acl.operation is Operation.ALTER_CONFIGS


def naive(
    acls: Iterable[AclEntry],
    requester: Requester,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    allow_if_no_acl: bool,
) -> tuple[bool, set[AclEntry]]:
    """Return the decision, and the ACLs from which it follows."""
    concerned = [each for each in acls if each.resource_type is resource_type and concerns(each, name)]
    saying = [each for each in concerned if is_for(each, requester) and names(each, operation)]
    denying = {each for each in saying if each.permission is DENY}
    if denying or saying:
        return not denying, denying or set(saying)
    return allow_if_no_acl and not concerned, set()


def naive_on_any(
    acls: set[AclEntry], requester: Requester, operation: Operation, resource_type: ResourceType, allow_if_no_acl: bool
) -> bool:
    if naive(acls, requester, operation, resource_type, "hardcode", allow_if_no_acl)[0]:
        return True
    saying = [
        each
        for each in acls
        if each.resource_type is resource_type
        and is_for(each, requester)
        and each.operation in (operation, Operation.ALL)
    ]
    denied = {each.pattern for each in saying if each.permission is DENY}
    if (LITERAL, "*") in denied:
        return False
    return any(
        each.pattern == (LITERAL, "*")
        or (
            each.pattern not in denied
            and not any(kind == PREFIXED and each.resource_name.startswith(name) for kind, name in denied)
        )
        for each in saying
        if each.permission is ALLOW
    )


@given(st.sets(ENTRIES, max_size=15), st.lists(ASKED, min_size=1, max_size=10), st.booleans())
def test_decisions_are_those_of_a_scan_of_all_acls(
    acls: set[AclEntry], questions: list[Question], allow_if_no_acl: bool
) -> None:
    deciding = asked(*acls, allow_if_no_acl=allow_if_no_acl)
    # The second time, from what is kept.
    for question in (*questions, *questions):
        decision = deciding.decide(*question)
        expected, following_from = naive(acls, *question, allow_if_no_acl)
        assert decision.is_allowed is expected
        assert decision.entry in following_from if following_from else decision.entry is None
        requester, operation, resource_type, _ = question
        on_any = naive_on_any(acls, requester, operation, resource_type, allow_if_no_acl)
        assert deciding.may_on_any(requester, operation, resource_type) is on_any


@given(
    st.lists(st.sets(ENTRIES, min_size=1, max_size=4), min_size=1, max_size=5), st.lists(ASKED, min_size=1, max_size=6)
)
def test_what_is_kept_never_disagrees_with_the_image(changes: list[set[AclEntry]], questions: list[Question]) -> None:
    """Each change asks the same again, so a decision of an earlier image that was kept would be noticed."""
    current = CurrentAuthorizer(frozenset(), allow_if_no_acl=False)
    acls, model = NO_ACLS, set[AclEntry]()
    for change in changes:
        draft = AclsDraft(acls)
        for each in change:
            draft.apply(acl_record(AclRemoved if each in model else AclAdded, each))
        acls, model = draft.acls(), model ^ change
        for question in questions:
            decision = current.of(acls).decide(*question)
            assert decision.is_allowed is naive(model, *question, allow_if_no_acl=False)[0]
            on_any = current.of(acls).may_on_any(*question[:3])
            assert on_any is naive_on_any(model, *question[:3], allow_if_no_acl=False)


# --- examples --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "operation", "is_allowed"),
    [
        ([], READ, False),
        ([entry()], READ, True),
        ([entry()], WRITE, False),
        ([entry()], DESCRIBE, True),
        ([entry(operation=Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS, True),
        ([entry(operation=Operation.ALTER_CONFIGS)], DESCRIBE, False),
        ([entry(operation=Operation.ALL)], Operation.DELETE, True),
        ([entry(), entry(permission=DENY)], READ, False),
        ([entry(), entry(operation=Operation.ALL, permission=DENY, host="10.0.0.1")], READ, False),
        ([entry(operation=WRITE), entry(operation=READ, permission=DENY)], DESCRIBE, True),
        ([entry("ord", pattern_type=PREFIXED)], READ, True),
        ([entry("orders", pattern_type=PREFIXED)], READ, True),
        ([entry("orders-eu", pattern_type=PREFIXED)], READ, False),
        ([entry("ord")], READ, False),
        ([entry("*")], READ, True),
        ([entry("*", pattern_type=PREFIXED)], READ, False),
        ([entry("*"), entry("o", pattern_type=PREFIXED, permission=DENY)], READ, False),
        ([entry(principal="User:*")], READ, True),
        ([entry(principal="User:bob")], READ, False),
        ([entry(principal="Group:alice")], READ, False),
        ([entry(host="10.0.0.2")], READ, False),
        ([entry(resource_type=GROUP)], READ, False),
    ],
)  # fmt: skip
def test_who_may_do_what_with_a_topic(entries: list[AclEntry], operation: Operation, is_allowed: bool) -> None:
    assert asked(*entries).decide(ALICE, operation, TOPIC, "orders").is_allowed is is_allowed


def test_super_users_may_do_everything_even_what_is_denied() -> None:
    deciding = asked(entry("*", Operation.ALL, DENY), super_users={"User:alice"})
    assert deciding.decide(ALICE, WRITE, TOPIC, "orders") == Decision(True, Reason.SUPER_USER)
    assert deciding.may_on_any(ALICE, WRITE, TOPIC)
    assert not deciding.decide(Requester("Group:alice", "10.0.0.1"), WRITE, TOPIC, "orders").is_allowed


def test_everybody_is_allowed_only_where_no_acl_concerns_the_resource() -> None:
    deciding = asked(entry("ord", pattern_type=PREFIXED, principal="User:bob"), allow_if_no_acl=True)
    assert deciding.decide(ALICE, WRITE, TOPIC, "invoices") == Decision(True, Reason.NO_ACL)
    assert deciding.decide(ALICE, WRITE, TOPIC, "orders") == Decision(False, Reason.NOTHING_ALLOWS)
    assert deciding.decide(ALICE, WRITE, GROUP, "orders").is_allowed
    assert not asked().decide(ALICE, WRITE, TOPIC, "orders").is_allowed


def test_the_acl_that_says_so_is_the_most_exact_one() -> None:
    literal, prefixed = entry("orders"), entry("ord", pattern_type=PREFIXED)
    longer, every = entry("orde", pattern_type=PREFIXED), entry("*")
    assert asked(every, prefixed, literal, longer).decide(ALICE, READ, TOPIC, "orders").entry == literal
    assert asked(every, prefixed, longer).decide(ALICE, READ, TOPIC, "orders").entry == longer
    denied = entry("*", permission=DENY)
    assert asked(denied, literal).decide(ALICE, READ, TOPIC, "orders") == Decision(False, Reason.ENTRY, denied)


def test_shorter_prefixes_count_behind_longer_ones_that_say_nothing() -> None:
    nested = asked(
        entry("t", READ, pattern_type=PREFIXED),
        entry("to", WRITE, pattern_type=PREFIXED),
        entry("top", WRITE, DENY, pattern_type=PREFIXED),
        entry("topic", READ, pattern_type=PREFIXED),
    )
    # The longest one is asked first, and then what is known of the others.
    for name, may_read, may_write in (
        ("topics", True, False),
        ("top", True, False),
        ("to-do", True, True),
        ("s", False, False),
    ):
        found = [nested.decide(ALICE, each, TOPIC, name).is_allowed for each in (READ, WRITE)]
        assert (name, *found) == (name, may_read, may_write)


@pytest.mark.parametrize(
    ("entries", "may"),
    [
        ([entry("x", WRITE)], True),
        ([entry("x", WRITE, resource_type=GROUP)], False),
        ([entry("x", READ)], False),
        ([entry("x", WRITE), entry("x", WRITE, DENY)], False),
        ([entry("xyz", WRITE), entry("xy", WRITE, DENY, pattern_type=PREFIXED)], False),
        ([entry("x", WRITE, pattern_type=PREFIXED), entry("x", WRITE, DENY)], True),
        ([entry("x", WRITE, pattern_type=PREFIXED), entry("xy", WRITE, DENY, pattern_type=PREFIXED)], True),
        ([entry("xy", WRITE), entry("*", Operation.ALL, DENY, principal="User:*")], False),
        ([entry("*", WRITE), entry("h", WRITE, DENY, pattern_type=PREFIXED)], True),
    ],
)
def test_an_idempotent_producer_needs_write_on_some_topic_that_is_not_denied_again(
    entries: list[AclEntry], may: bool
) -> None:
    assert asked(*entries).may_on_any(ALICE, WRITE, TOPIC) is may


@pytest.mark.parametrize(
    ("host", "of_acl"),
    [("::1", "::1"), ("::1", "0:0:0:0:0:0:0:1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("fe80::1%lo", "fe80::1%lo")],
)
def test_an_ipv6_address_is_also_known_as_kafka_writes_it(host: str, of_acl: str) -> None:
    deciding = asked(entry(host=of_acl))
    assert deciding.decide(Requester("User:alice", host), READ, TOPIC, "orders").is_allowed
    assert not deciding.decide(Requester("User:alice", "::2"), READ, TOPIC, "orders").is_allowed


class CountedLookups(dict[Any, Any]):
    count = 0

    def __contains__(self, key: object) -> bool:
        self.count += 1
        return super().__contains__(key)


@pytest.mark.parametrize(("own", "lookups_most"), [((), 0), ((entry("t", pattern_type=PREFIXED),), 3)])
def test_prefixes_of_others_cost_a_decision_nothing(own: tuple[AclEntry, ...], lookups_most: int) -> None:
    of_others = [entry("t" * length, pattern_type=PREFIXED, principal="User:bob") for length in range(1, 200)]
    acls = acls_of([*of_others, *own])
    counted: Any = CountedLookups(acls.holders)
    deciding = Authorizer(replace(acls, holders=counted), frozenset(), allow_if_no_acl=False)
    assert deciding.decide(ALICE, READ, TOPIC, "t" * 240).is_allowed is bool(own)
    assert counted.count <= lookups_most


@pytest.mark.parametrize("most", [0, 1, 1_000])
def test_a_principal_with_many_patterns_is_decided_about_likewise(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer, "OWN_PATTERNS_MAX", most)
    deciding = asked(
        entry("ord", pattern_type=PREFIXED),
        entry("orders-", pattern_type=PREFIXED, permission=DENY, principal="User:*"),
        entry("parcels"),
    )
    questions = {"orders": True, "orders-eu": False, "parcels": True, "or": False}
    assert {name: deciding.decide(ALICE, READ, TOPIC, name).is_allowed for name in questions} == questions


def test_what_is_kept_for_one_question_answers_no_other() -> None:
    deciding = asked(entry("orders"))
    bob, elsewhere = Requester("User:bob", "10.0.0.1"), Requester("User:alice", "10.0.0.2")
    questions = {
        (ALICE, READ, TOPIC, "orders"): True,
        (ALICE, READ, TOPIC, "order"): False,
        (ALICE, READ, TOPIC, "orders-eu"): False,
        (ALICE, READ, GROUP, "orders"): False,
        (ALICE, WRITE, TOPIC, "orders"): False,
        (bob, READ, TOPIC, "orders"): False,
        (elsewhere, READ, TOPIC, "orders"): True,
    }
    for _ in range(2):
        assert {each: deciding.decide(*each).is_allowed for each in questions} == questions


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer, "DECISIONS_KEPT_MAX", 10)
    deciding = asked(entry("t", pattern_type=PREFIXED))
    for number in range(100):
        assert deciding.decide(ALICE, READ, TOPIC, f"t{number}").is_allowed
        assert deciding.decide(ALICE, READ, TOPIC, "t" * (300 + number)).is_allowed
        deciding.may_on_any(Requester(f"User:{number}", ""), READ, TOPIC)
        kept = deciding._decisions
        assert len(kept) <= 10
        assert len(deciding._on_any) <= 10
        assert max(len(name) for _, _, _, name in kept) <= authorizer.NAME_LENGTH_KEPT_MAX
