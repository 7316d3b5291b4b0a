"""A node with 100,000 ACLs: created, found and deleted by the largest requests that Kafka's clients may send.

A function prepares its scenario in a directory, scaled by a number of at most 1, and returns what is to be measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from kraft.metadata.acl_decisions import FILTERS_PER_REQUEST_MAX
from kraft.metadata.decision import Decision
from kraft.metadata.features import ACLS_AS_METADATA, METADATA_VERSION
from kraft.metadata.records import FeatureLevelSet
from kraft.model.access import Operation, PatternType, PermissionType, ResourceType
from kraft.server.controller.state_machine_host import StateMachineHost
from kraft.server.handlers import acls
from kraft.server.kafka_listener.handled import HandledApi
from kraft.server.kafka_listener.requests import KafkaRequests
from kraft.wire.api_keys import ApiKey
from kraft.wire.declaration import Message
from kraft.wire.frame import SIZE_BYTES, encode_request
from kraft.wire.schema.create_acls import AclCreation, CreateAclsRequest
from kraft.wire.schema.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kraft.wire.schema.describe_acls import DescribeAclsRequest
from tests.soak.loads.held_controllers import DEADLINE_S, lone_controller

Work = Callable[[], Awaitable[object]]

ACLS: Final = 100_000
AT_ONCE: Final = 10_000
VERSION: Final = 3
PRINCIPALS: Final = 1_000

ANYTHING: Final[dict[str, Any]] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": PermissionType.ANY,
}


def many_acls(directory: Path, scale: float) -> Work:
    """All are created, described and deleted: by a filter that matches too many, and by filters that name them."""
    at_once = int(AT_ONCE * scale)
    parts = [range(first, first + at_once) for first in range(0, int(ACLS * scale), at_once)]
    frames = [
        *(_frame(CreateAclsRequest(creations=tuple(map(_creation, part)))) for part in parts),
        _frame(DescribeAclsRequest(**ANYTHING)),
        _frame(DeleteAclsRequest(filters=(DeleteAclsFilter(**ANYTHING),))),
        *(_frame(DeleteAclsRequest(filters=tuple(map(_filter, named)))) for part in parts for named in _parts(part)),
    ]

    async def work() -> None:
        quorum, host = await lone_controller(directory)
        deciding = asyncio.create_task(host.run())
        level = FeatureLevelSet(feature=METADATA_VERSION, level=ACLS_AS_METADATA)
        await host.submit(lambda _: Decision(records=[level], response=None))
        requests, counts = KafkaRequests(_apis(host), peer="127.0.0.1:1"), set[int]()
        for frame in frames:
            answer = requests.begin(memoryview(frame))
            assert not isinstance(answer, list), "the handler waits"
            await asyncio.wait_for(answer, DEADLINE_S)
            counts.add(host.image.acls.count)
        assert max(counts) == len(parts) * at_once, "all were created"
        assert not host.image.acls.count, "all were deleted"
        deciding.cancel()
        await quorum.stop()

    directory.mkdir()
    return work


def _parts(of: range) -> list[range]:
    """Return as many numbers as a request may have filters, at a time."""
    return [of[first : first + FILTERS_PER_REQUEST_MAX] for first in range(0, len(of), FILTERS_PER_REQUEST_MAX)]


def _apis(host: StateMachineHost) -> dict[ApiKey, Any]:
    def describe(request: DescribeAclsRequest) -> Awaitable[Any]:
        return acls.describe(host.image, request)

    return {
        ApiKey.CREATE_ACLS: HandledApi(ApiKey.CREATE_ACLS, partial(acls.create, host), refused=acls.creations_refused),
        ApiKey.DESCRIBE_ACLS: HandledApi(ApiKey.DESCRIBE_ACLS, describe),
        ApiKey.DELETE_ACLS: HandledApi(ApiKey.DELETE_ACLS, partial(acls.delete, host), refused=acls.deletions_refused),
    }


def _frame(request: Message) -> bytes:
    return b"".join(encode_request(request, VERSION, 1, "many"))[SIZE_BYTES:]


def _creation(number: int) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=f"topic-{number}",
        resource_pattern_type=PatternType.LITERAL,
        principal=f"User:{number % PRINCIPALS}",
        host="*",
        operation=Operation.READ,
        permission_type=PermissionType.ALLOW,
    )


def _filter(number: int) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter=f"topic-{number}",
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=f"User:{number % PRINCIPALS}",
        host_filter="*",
        operation=Operation.READ,
        permission_type=PermissionType.ALLOW,
    )
