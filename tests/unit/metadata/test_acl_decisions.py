from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.metadata import acl_decisions
from kraft.metadata.acl_decisions import create_acls, delete_acls, deleted_entry, matching_acl, valid_entry
from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.acls import AclEntry, Acls, acl_record
from kraft.metadata.features import METADATA_VERSION
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import AclAdded, AclRemoved, FeatureLevelSet
from kraft.model.access import Operation
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.declaration import replace
from kraft.wire.schema.create_acls import AclCreation
from kraft.wire.schema.delete_acls import DeleteAclsFilterResult
from tests.support.acl_entries import DENY, ENTRIES, FILTERS, PREFIXED, entry
from tests.support.cluster_images import cluster

CREATION = AclCreation(
    resource_type=2,
    resource_name="orders",
    resource_pattern_type=4,
    principal="User:alice",
    host="*",
    operation=3,
    permission_type=2,
)


def with_acls(*entries: AclEntry) -> MetadataImage:
    image = cluster(1)
    return image.replay(create_acls(image, entries).records)


def removal(
    image: MetadataImage, filters: Sequence[AclFilter | Refusal], found_in: Acls | None = None
) -> tuple[MetadataImage, Sequence[DeleteAclsFilterResult]]:
    """Return the image after the deletion of what was found earlier, and the results."""
    acls = image.acls if found_in is None else found_in
    found = [
        {each: matching_acl(each) for each in acls if isinstance(wanted, AclFilter) and wanted.matches(each)}
        for wanted in filters
    ]
    decision = delete_acls(image, filters, found, acls)
    return image.replay(decision.records), decision.response.filter_results


def test_an_acl_of_a_request_is_read_with_kafkas_numbers() -> None:
    assert valid_entry(CREATION) == entry("orders", permission=DENY, pattern_type=PREFIXED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resource_type": 0}, "no ACL has the resource type 0"),
        ({"resource_type": 1}, r"resource type 1: use 2 \(TOPIC\), 3 \(GROUP\)"),
        ({"resource_type": 99}, "resource type 99"),
        ({"resource_pattern_type": 0}, "pattern type 0"),
        ({"resource_pattern_type": 1}, "pattern type 1"),
        ({"resource_pattern_type": 2}, r"pattern type 2: use 3 \(LITERAL\), 4 \(PREFIXED\)$"),
        ({"operation": 0}, "operation 0"),
        ({"operation": 1}, "operation 1"),
        ({"operation": 16}, "operation 16"),
        ({"permission_type": 0}, "permission type 0"),
        ({"permission_type": 1}, "permission type 1"),
        ({"resource_name": ""}, "the resource name is empty"),
        ({"resource_type": 4}, "the only resource of the type CLUSTER is kafka-cluster, not 'orders'"),
        ({"principal": ""}, "has no colon"),
        ({"principal": "alice"}, "the principal 'alice' has no colon between kind and name: write User:NAME"),
        ({"resource_name": "x" * 1_001}, "longer than 1000 letters"),
        ({"principal": "User:" + "x" * 1_000}, "longer than 1000 letters"),
        ({"host": "x" * 1_001}, "longer than 1000 letters"),
    ],
)
def test_an_acl_that_cannot_be_is_refused(change: dict[str, int | str], words: str) -> None:
    with pytest.raises(Refusal, match=words) as refused:
        valid_entry(replace(CREATION, **change))
    assert refused.value.error_code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type": 4, "resource_name": "kafka-cluster"},
        {"resource_name": "*"},
        {"resource_name": "*", "resource_pattern_type": 3},
        {"resource_name": "a b/ü\0"},
        {"principal": ":"},
        {"principal": "Group:a:b"},
        {"host": ""},
        {"host": "not an address"},
        {"operation": 15},
    ],
)
def test_odd_acls_that_kafka_takes_are_taken(change: dict[str, int | str]) -> None:
    created = valid_entry(replace(CREATION, **change))
    assert deleted_entry(matching_acl(created)) == created


def test_valid_acls_are_created_once_and_the_others_are_refused() -> None:
    image = with_acls(entry("there"))
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "it is odd")
    decision = create_acls(image, [entry("new"), refusal, entry("there"), entry("new")])
    assert list(decision.records) == [acl_record(AclAdded, entry("new"))]
    assert [(each.error_code, each.error_message) for each in decision.response.results] == [
        (ErrorCode.NONE, None), (ErrorCode.INVALID_REQUEST, "it is odd"), (ErrorCode.NONE, None), (ErrorCode.NONE, None)
    ]  # fmt: skip


def test_there_are_no_acls_while_a_node_may_not_know_them() -> None:
    image = cluster(1).replay([FeatureLevelSet(feature=METADATA_VERSION, level=3)])
    with pytest.raises(Refusal, match=r"run kraft features upgrade --feature metadata.version=4") as refused:
        create_acls(image, [entry()])
    assert refused.value.error_code is ErrorCode.UNSUPPORTED_VERSION


def test_one_request_creates_a_limited_number_of_new_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_decisions, "ACLS_PER_REQUEST_MAX", 2)
    image = with_acls(entry("1"), entry("2"))
    known = [entry("1"), entry("2"), entry("3"), entry("4")]
    assert len(create_acls(image, known).records) == 2, "those that are there do not count"
    with pytest.raises(Refusal, match="more than 2 new ACLs") as refused:
        create_acls(image, [*known, entry("5")])
    assert refused.value.error_code is ErrorCode.POLICY_VIOLATION


def test_each_filter_says_what_it_deleted() -> None:
    image = with_acls(entry("a"), entry("b"), entry("b", Operation.WRITE))
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "it is odd")
    reads, named_b = AclFilter(operation=Operation.READ), AclFilter(resource_name="b")
    after, results = removal(image, [reads, refusal, named_b, AclFilter(resource_name="c")])
    assert after.acls.count == 0
    assert [{deleted_entry(each) for each in result.matching_acls} for result in results] == [
        {entry("a"), entry("b")},
        set(),
        {entry("b"), entry("b", Operation.WRITE)},
        set(),
    ]
    assert [each.error_code for each in results] == [0, ErrorCode.INVALID_REQUEST, 0, 0]


def test_a_filter_that_matches_too_much_deletes_nothing_and_the_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    image = with_acls(entry("a"), entry("b"), entry("c"))
    monkeypatch.setattr(acl_decisions, "ACLS_PER_REQUEST_MAX", 2)
    after, results = removal(image, [AclFilter(), AclFilter(resource_name="a")])
    assert [(each.error_code, len(each.matching_acls)) for each in results] == [(ErrorCode.INVALID_REQUEST, 0), (0, 1)]
    assert "more than 2 ACLs match" in str(results[0].error_message)
    assert set(after.acls) == {entry("b"), entry("c")}


@given(st.sets(ENTRIES, max_size=12), st.sets(ENTRIES, max_size=6), st.lists(FILTERS, max_size=3))
def test_what_changed_since_the_filters_were_tried_is_decided_anew(
    before: set[AclEntry], changed: set[AclEntry], filters: list[AclFilter]
) -> None:
    found_in = with_acls(*before).acls
    image = with_acls(*before).replay(
        [acl_record(AclRemoved if each in before else AclAdded, each) for each in changed]
    )
    after, results = removal(image, filters, found_in)
    now = before ^ changed
    assert set(after.acls) == {each for each in now if not any(wanted.matches(each) for wanted in filters)}
    for wanted, result in zip(filters, results, strict=True):
        assert {deleted_entry(each) for each in result.matching_acls} == {each for each in now if wanted.matches(each)}
