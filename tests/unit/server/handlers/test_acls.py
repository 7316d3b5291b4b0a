from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.metadata.acl_decisions import FILTERS_PER_REQUEST_MAX, create_acls, described_entries
from kraft.metadata.acls import AclEntry
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers import acls
from kraft.wire.declaration import replace
from kraft.wire.schema.create_acls import AclCreation, CreateAclsRequest
from kraft.wire.schema.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kraft.wire.schema.describe_acls import DescribeAclsRequest
from tests.support.acl_entries import ENTRIES, entry
from tests.support.cluster_images import cluster

ANYTHING: Final[dict[str, Any]] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
CREATION: Final = AclCreation(
    resource_type=2,
    resource_name="orders",
    resource_pattern_type=3,
    principal="User:alice",
    host="*",
    operation=3,
    permission_type=3,
)


class Decisions:
    """A controller that commits each decision at once. What is decided meanwhile comes in between."""

    def __init__(self, *meanwhile: AclEntry) -> None:
        self.image = cluster(1)
        self._meanwhile = meanwhile

    def check_active(self) -> None:
        pass

    async def submit(self, decide: Callable[[MetadataImage], Decision[Any]]) -> Any:
        self.image = self.image.replay(create_acls(self.image, self._meanwhile).records)
        decision = decide(self.image)
        self.image = self.image.replay(decision.records)
        return decision.response


@given(st.sets(ENTRIES, max_size=20))
def test_every_acl_is_described_once(entries: set[AclEntry]) -> None:
    image = cluster(1)
    image = image.replay(create_acls(image, list(entries)).records)
    response = asyncio.run(acls.describe(image, DescribeAclsRequest(**ANYTHING)))
    patterns = [(each.resource_type, each.resource_name, each.pattern_type) for each in response.resources]
    assert len(set(patterns)) == len(patterns)
    assert sorted(described_entries(response), key=repr) == sorted(entries, key=repr)


async def test_a_broker_knows_a_decision_once_it_shows_all_of_it() -> None:
    decisions, before = Decisions(), cluster(1)
    asked = CreateAclsRequest(creations=(CREATION, replace(CREATION, resource_type=0)))
    created = await acls.create(decisions, asked)
    assert [each.error_code for each in created.results] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert not acls.is_created(before, asked, created)
    assert acls.is_created(decisions.image, asked, created)

    with_acls = decisions.image
    removal = DeleteAclsRequest(filters=(DeleteAclsFilter(**ANYTHING),))
    deleted = await acls.delete(decisions, removal)
    assert not acls.is_deleted(with_acls, removal, deleted)
    assert acls.is_deleted(decisions.image, removal, deleted)


async def test_what_is_created_while_filters_are_tried_is_deleted_too() -> None:
    decisions = Decisions(entry("in-between"))
    deleted = await acls.delete(decisions, DeleteAclsRequest(filters=(DeleteAclsFilter(**ANYTHING),)))
    assert [each.resource_name for each in deleted.filter_results[0].matching_acls] == ["in-between"]
    assert not decisions.image.acls.count


async def test_one_request_has_a_limited_number_of_filters() -> None:
    many = DeleteAclsRequest(filters=(DeleteAclsFilter(**ANYTHING),) * (FILTERS_PER_REQUEST_MAX + 1))
    with pytest.raises(Refusal, match="more than 2000 filters in one request") as refused:
        await acls.delete(Decisions(), many)
    response = acls.deletions_refused(many, refused.value)
    assert {each.error_code for each in response.filter_results} == {ErrorCode.INVALID_REQUEST}


async def test_without_an_authorizer_every_request_is_refused_as_in_kafka() -> None:
    asked = CreateAclsRequest(creations=(CREATION,))
    with pytest.raises(Refusal, match=r"set authorizer.class.name, and super.users, .* SECURITY.md") as refused:
        await acls.refuse_without_authorizer(asked)
    assert refused.value.error_code is ErrorCode.SECURITY_DISABLED
    assert [each.error_code for each in acls.creations_refused(asked, refused.value).results] == [54]
