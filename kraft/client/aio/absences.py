"""Groups and transactional ids that cannot be there, because their internal topic is not.

Brokers create the topic of groups, or of transactions, for whoever looks for a coordinator. Calls that only look, or
delete, ask here first, so that they create nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from kraft.client.aio.admin_calls import AdminClient
from kraft.client.model.arguments import checked_names
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.rpc.call import Call
from kraft.rpc.group_calls import DESCRIBE_GROUPS
from kraft.rpc.transaction_calls import DESCRIBE_TRANSACTIONS
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.describe_transactions import DescribeTransactionsRequest

_ELSEWHERE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""Errors of a broker that does not coordinate an id."""


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What a coordinator of one type keeps, and a call by which every broker says whether it coordinates an id."""

    noun: str
    topic: str
    not_found: ErrorCode
    call: Call[Any, Any]
    request_of: Callable[[str], object]
    codes_of: Callable[[Any], Iterable[int]]


_KINDS: Final = {
    CoordinatorType.GROUP: _Kind(
        noun="group",
        topic=OFFSETS_TOPIC,
        not_found=ErrorCode.GROUP_ID_NOT_FOUND,
        call=DESCRIBE_GROUPS,
        request_of=lambda group_id: DescribeGroupsRequest(groups=(group_id,)),
        codes_of=lambda response: (each.error_code for each in response.groups),
    ),
    CoordinatorType.TRANSACTION: _Kind(
        noun="transactional id",
        topic=TRANSACTIONS_TOPIC,
        not_found=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        call=DESCRIBE_TRANSACTIONS,
        request_of=lambda transactional_id: DescribeTransactionsRequest(transactional_ids=(transactional_id,)),
        codes_of=lambda response: (each.error_code for each in response.transaction_states),
    ),
}


async def absences(
    admin: AdminClient, key_type: CoordinatorType, ids: Iterable[str], deadline_ms: int
) -> dict[str, Refusal]:
    """Return a Refusal for each id if the internal topic is not there, and otherwise nothing, and create nothing.

    It is GROUP_ID_NOT_FOUND or TRANSACTIONAL_ID_NOT_FOUND; COORDINATOR_NOT_AVAILABLE if the topic may not be seen, and
    no broker says to coordinate the id. Raises KraftError if a broker that might does not answer.
    """
    kind, asked = _KINDS[key_type], list(dict.fromkeys(checked_names(ids)))
    if not asked or key_type in admin.calls.internal_topics_seen:
        return {}
    left_ms = admin.calls.left_ms(deadline_ms)
    (topic,) = (await admin.calls.describe_cluster([kind.topic], timeout_ms=left_ms)).topics
    # A broker that has not heard of a new topic yet says that there is none; the coordinator knows it.
    if topic.error_code == ErrorCode.NONE or await _is_coordinated(admin, kind, asked[0], deadline_ms):
        admin.calls.internal_topics_seen.add(key_type)
        return {}
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return {each: Refusal(kind.not_found, f"there is no {kind.noun} {each!r}") for each in asked}
    reason = "there is none yet, or it moves"
    return {
        each: Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no broker coordinates {kind.noun} {each!r} now: {reason}")
        for each in asked
    }


async def check_not_absent(admin: AdminClient, group_id: str, deadline_ms: int) -> None:
    """Raise the Refusal of a group that cannot be there, as `absences` returns it."""
    for refusal in (await absences(admin, CoordinatorType.GROUP, [group_id], deadline_ms)).values():
        raise refusal


async def _is_coordinated(admin: AdminClient, kind: _Kind, one_id: str, deadline_ms: int) -> bool:
    """Return whether a broker coordinates the id, or says that the user may not see it. Raises KraftError."""

    def is_said(response: object) -> bool:
        return any(code not in _ELSEWHERE for code in kind.codes_of(response))

    outcomes = await admin.calls.outcome_of_each_broker(
        kind.call, kind.request_of(one_id), admin.calls.left_ms(deadline_ms), is_enough=is_said
    )
    if any(not isinstance(each, KraftError) and is_said(each) for each in outcomes.values()):
        return True
    for each in outcomes.values():
        if isinstance(each, KraftError) and not (isinstance(each, Refusal) and each.error_code in _ELSEWHERE):
            raise each
    return False
