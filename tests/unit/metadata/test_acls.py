from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.metadata.acls import NO_ACLS, AclEntry, Acls, AclsDraft, acl_record
from kraft.metadata.records import AclAdded, AclRemoved
from kraft.model.access import Operation, PatternType
from tests.support.acl_entries import DENY, ENTRIES, LITERAL, OPERATIONS, PREFIXED, RESOURCE_TYPES, acls_of, entry


def after(acls: Acls, *entries: AclEntry) -> Acls:
    """Return the ACLs with each of these added, or removed if it is there."""
    draft, there = AclsDraft(acls), set(acls)
    for each in entries:
        draft.apply(acl_record(AclRemoved if each in there else AclAdded, each))
        there ^= {each}
    return draft.acls()


@given(st.lists(st.lists(ENTRIES, max_size=8), max_size=4))
def test_acls_are_a_set_through_any_changes(changes: list[list[AclEntry]]) -> None:
    acls, model = NO_ACLS, set[AclEntry]()
    for change in changes:
        acls = after(acls, *change)
        for each in change:
            model ^= {each}
        assert sorted(acls, key=repr) == sorted(model, key=repr)
        assert acls.count == len(model)
        assert all((each in acls) is (each in model) for each in {*change, *model})
        holders = {(each.resource_type, each.pattern, each.holder) for each in model}
        counts = [(resource_type, pattern) for resource_type, pattern, _ in holders]
        assert dict(acls.holders) == {each: counts.count(each) for each in counts}
        prefixed = {(kind, pattern[1]) for kind, pattern, _ in holders if pattern[0] == PatternType.PREFIXED}
        lengths = [(kind, len(name)) for kind, name in prefixed]
        assert dict(acls.prefix_lengths) == {each: lengths.count(each) for each in lengths}
        assert acls == acls_of(model), "what is there is all that it is"


@given(st.sets(ENTRIES, max_size=12), st.sets(ENTRIES, max_size=6))
def test_two_values_differ_where_an_acl_is_in_one_of_them_only(some: set[AclEntry], changed: set[AclEntry]) -> None:
    before = acls_of(some)
    later = after(before, *changed)
    expected = {(each.holder, each.pattern) for each in changed}
    assert set(later.differing(before)) == set(before.differing(later)) == expected


def test_every_operation_and_permission_of_every_resource_type_is_an_acl_of_its_own() -> None:
    every = {
        entry(operation=operation, permission=permission, resource_type=resource_type)
        for operation in OPERATIONS
        for permission in (entry().permission, DENY)
        for resource_type in RESOURCE_TYPES
    }
    acls = acls_of(every)
    assert set(acls) == every
    assert acls.count == len(every) == 14 * 2 * 6
    draft = AclsDraft(NO_ACLS)
    for record in acls.records():
        draft.apply(record)
    assert draft.acls() == acls


def test_a_literal_and_a_prefix_of_the_same_name_are_two_acls() -> None:
    assert acls_of([entry(pattern_type=LITERAL), entry(pattern_type=PREFIXED)]).count == 2


def test_acls_that_change_back_are_equal_and_share_what_did_not_change() -> None:
    others = acls_of(entry(f"topic-{number}", principal=f"User:{number}") for number in range(500))
    one = entry("one-more")
    changed = after(others, one)
    assert after(changed, one) == others
    kept = sum(others.by_holder[holder] is changed.by_holder[holder] for holder in others.by_holder)
    assert kept == 500


@pytest.mark.parametrize("kind", [AclAdded, AclRemoved])
def test_an_acl_is_added_once_and_removed_only_if_it_is_there(kind: type[AclAdded] | type[AclRemoved]) -> None:
    draft = AclsDraft(acls_of([entry()]))
    again = entry() if kind is AclAdded else entry(operation=Operation.WRITE)
    with pytest.raises(AssertionError, match=r"which is (not )?there"):
        draft.apply(acl_record(kind, again))
