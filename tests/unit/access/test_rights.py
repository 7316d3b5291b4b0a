"""What a principal may do, and what becomes of it when ACLs change."""

from __future__ import annotations

import pytest

from kraft.access import purposes
from kraft.access.administrators import BY_ACLS_ALONE, AccessSettings, administers
from kraft.access.rights import decide, effects, rights_of
from kraft.metadata.acls import AclEntry
from kraft.metadata.authorizer import Reason
from kraft.model.access import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from tests.support.acl_entries import ALLOW, DENY, PREFIXED, entry

ALICE = "User:alice"
EVERYBODY = "User:*"


def alter_cluster(principal: str = ALICE, permission: PermissionType = ALLOW) -> AclEntry:
    return entry(CLUSTER_NAME, Operation.ALTER, permission, principal=principal, resource_type=ResourceType.CLUSTER)


def test_the_rights_of_a_principal_are_its_own_and_those_of_everybody() -> None:
    found = rights_of(
        [
            entry("orders", Operation.READ),
            entry("orders", Operation.ALTER_CONFIGS, DENY),
            entry("pay", Operation.ALL, principal=EVERYBODY, pattern_type=PREFIXED),
            entry("orders", Operation.WRITE, principal="User:bob"),
        ],
        ALICE,
    )
    assert [(each.resource_name, each.principal) for each in found] == [("orders", ALICE), ("pay", EVERYBODY)]
    assert (found[0].allowed, found[0].implied) == ((Operation.READ,), (Operation.DESCRIBE,))
    assert found[0].denied == (Operation.ALTER_CONFIGS,)
    assert (found[1].allowed, found[1].implied) == ((Operation.ALL,), ())


def test_a_decision_names_what_it_follows_from() -> None:
    orders = ResourceType.TOPIC, "orders"
    allowed = decide([entry("orders")], None, (ALICE, "10.0.0.1"), Operation.DESCRIBE, orders)
    assert (allowed.is_allowed, allowed.reason, allowed.entry) == (True, Reason.ENTRY, entry("orders"))
    nobody = decide([], None, (ALICE, "10.0.0.1"), Operation.READ, orders)
    assert (nobody.is_allowed, nobody.reason) == (False, Reason.NOTHING_ALLOWS)
    super_users = AccessSettings(is_authorized=True, super_users=frozenset({ALICE}), allow_if_no_acl=False)
    assert decide([], super_users, (ALICE, "::1"), Operation.READ, orders).reason is Reason.SUPER_USER


def test_a_deletion_says_who_loses_what() -> None:
    read, by_prefix = entry("orders"), entry("or", pattern_type=PREFIXED)
    deny = entry("orders", Operation.WRITE, DENY)
    write = entry("orders", Operation.WRITE)
    before = [read, by_prefix, deny, write]
    (lost,) = effects([read, deny], [deny], [read])
    assert (lost.was_allowed, lost.is_allowed) == (True, False)
    (kept,) = effects(before, [by_prefix, deny, write], [read])
    assert (kept.was_allowed, kept.is_allowed) == (True, True), "another ACL allows it"
    (gained,) = effects(before, [read, by_prefix, write], [deny])
    assert (gained.was_allowed, gained.is_allowed) == (False, True)


@pytest.mark.parametrize(
    ("entries", "settings", "expected"),
    [
        ([], BY_ACLS_ALONE, False),
        ([alter_cluster()], BY_ACLS_ALONE, True),
        ([alter_cluster(EVERYBODY)], BY_ACLS_ALONE, True),
        ([alter_cluster("User:bob")], BY_ACLS_ALONE, False),
        ([alter_cluster(), alter_cluster(permission=DENY)], BY_ACLS_ALONE, False),
        ([], AccessSettings(is_authorized=True, super_users=frozenset({ALICE}), allow_if_no_acl=False), True),
        ([], AccessSettings(is_authorized=False, super_users=frozenset(), allow_if_no_acl=False), True),
        ([], AccessSettings(is_authorized=True, super_users=frozenset(), allow_if_no_acl=True), True),
    ],
)
def test_who_may_change_acls(entries: list[AclEntry], settings: AccessSettings, expected: bool) -> None:
    assert administers(ALICE, entries, settings) is expected


def test_each_purpose_needs_only_what_somebody_asks_for() -> None:
    rights = [
        *purposes.consumer(["orders"], ["billing"]),
        *purposes.producer(["orders"], ["payments"], is_idempotent=True),
        *purposes.viewer(),
        *purposes.administrator(),
    ]
    assert purposes.never_asked(rights) is None
    assert purposes.never_asked([(purposes.CLUSTER, Operation.READ)]) == (purposes.CLUSTER, Operation.READ)
    made = purposes.entries([(purposes.CLUSTER, Operation.ALL)], [(ALLOW, ALICE, "*")], PREFIXED)
    assert [each.pattern_type for each in made] == [PatternType.LITERAL], "the cluster has one name"
