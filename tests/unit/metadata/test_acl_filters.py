from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.metadata.acl_filters import AclFilter, acl_filter
from kraft.metadata.acls import AclEntry
from kraft.model.access import PatternType
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.describe_acls import DescribeAclsRequest
from tests.support.acl_entries import ENTRIES, FILTERS, PREFIXED, acls_of, entry


@given(st.sets(ENTRIES, max_size=20), FILTERS)
def test_a_filter_finds_what_it_matches(entries: set[AclEntry], wanted: AclFilter) -> None:
    found = [each for part in wanted.found_in(acls_of(entries)) for each in part]
    assert len(found) == len(set(found))
    assert set(found) == {each for each in entries if wanted.matches(each)}


EVERY = [
    entry("orders"), entry("orders", pattern_type=PREFIXED), entry("ord", pattern_type=PREFIXED),
    entry("*"), entry("*", pattern_type=PREFIXED), entry("other"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "pattern_type", "found"),
    [
        (None, PatternType.ANY, EVERY),
        (None, PatternType.MATCH, EVERY),
        (None, PatternType.LITERAL, [EVERY[0], EVERY[3], EVERY[5]]),
        ("orders", PatternType.ANY, EVERY[:2]),
        ("orders", PatternType.LITERAL, EVERY[:1]),
        ("orders", PatternType.PREFIXED, EVERY[1:2]),
        ("orders", PatternType.MATCH, EVERY[:4]),
        ("orders-eu", PatternType.MATCH, EVERY[1:4]),
        ("*", PatternType.MATCH, [EVERY[3], EVERY[4]]),
    ],
)
def test_names_and_pattern_types_match_as_in_kafka(
    name: str | None, pattern_type: PatternType, found: list[AclEntry]
) -> None:
    wanted = AclFilter(resource_name=name, pattern_type=pattern_type)
    assert [each for each in EVERY if wanted.matches(each)] == found


def request(
    resource_type: int = 1, pattern_type: int = 1, operation: int = 1, permission_type: int = 1
) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=resource_type,
        resource_name_filter=None,
        pattern_type_filter=pattern_type,
        principal_filter=None,
        host_filter=None,
        operation=operation,
        permission_type=permission_type,
    )


def test_a_filter_of_a_request_may_match_everything() -> None:
    assert acl_filter(request()) == AclFilter()


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission_type"])
@pytest.mark.parametrize("number", [0, -1, 99])
def test_unknown_numbers_in_a_filter_are_refused(field: str, number: int) -> None:
    with pytest.raises(Refusal, match=r"UNKNOWN|unknown") as refused:
        acl_filter(request(**{field: number}))
    assert refused.value.error_code is ErrorCode.INVALID_REQUEST
