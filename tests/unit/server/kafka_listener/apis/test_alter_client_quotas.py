from __future__ import annotations

import asyncio

import pytest

from kraft.model.client_quotas import AlterClientQuotasRequest as Asked
from kraft.model.client_quotas import AlterClientQuotasResponse as Answer
from kraft.model.client_quotas import QuotaAlteration, QuotaEntity, QuotaOperation
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.alter_client_quotas import AlterClientQuotasApi
from kraft.wire.schema.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


def entry(user: str | None, *operations: OpData) -> EntryData:
    return EntryData(entity=(EntityData(entity_type="user", entity_name=user),), ops=operations)


@pytest.mark.parametrize("version", versions_of(AlterClientQuotasRequest))
def test_each_entity_is_altered_on_its_own(version: int) -> None:
    asked = []

    async def handle(request: Asked) -> Answer:
        asked.append(request)
        if request.alterations[0].entity[0].name is None:
            raise Refusal(ErrorCode.INVALID_REQUEST, "no such quota")
        return Answer(changed=1)

    rate = OpData(key="producer_byte_rate", value=5.0, remove=False)
    removed = OpData(key="consumer_byte_rate", value=0.0, remove=True)
    request = AlterClientQuotasRequest(entries=(entry(None, rate), entry("ann", rate, removed)), validate_only=True)
    response = asyncio.run(answered(AlterClientQuotasApi(handle), request, version, AlterClientQuotasResponse))
    assert [(each.error_code, each.error_message, each.entity[0].entity_name) for each in response.entries] == [
        (ErrorCode.INVALID_REQUEST, "no such quota", None),
        (0, None, "ann"),
    ]
    assert all(each.validate_only for each in asked)
    assert asked[1].alterations == [
        QuotaAlteration(
            entity=[QuotaEntity(entity_type="user", name="ann")],
            operations=[
                QuotaOperation(key="producer_byte_rate", value=5.0),
                QuotaOperation(key="consumer_byte_rate", value=None),
            ],
        )
    ]


def test_after_a_timeout_the_remaining_entities_are_not_altered() -> None:
    asked = []

    async def handle(request: Asked) -> Answer:
        asked.append(request)
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "no controller is active")

    rate = OpData(key="producer_byte_rate", value=5.0, remove=False)
    request = AlterClientQuotasRequest(entries=tuple(entry(user, rate) for user in "abc"), validate_only=False)
    response = asyncio.run(answered(AlterClientQuotasApi(handle), request, 1, AlterClientQuotasResponse))
    assert [each.error_code for each in response.entries] == [ErrorCode.REQUEST_TIMED_OUT] * 3
    assert len(asked) == 1
