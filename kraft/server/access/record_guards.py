"""Guards of the APIs that append and read records: WRITE or READ on each topic. They are on the hot path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from kraft.log.format.record_batch import Buffer
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import Refusal
from kraft.model.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.plain_records import FetchRecordsRequest, FetchRecordsResponse, ProduceRecordsRequest
from kraft.model.produce import (
    ACKS_NONE,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from kraft.rpc.client_gate import CALLER
from kraft.server.access.asker import Asker
from kraft.server.access.guard import ASKED_AT_ONCE, Proceed
from kraft.server.loop.turns import Turns, collected, pieces

_TOPIC: Final = ResourceType.TOPIC

_ATTRIBUTES_AT: Final = 22
_IS_TRANSACTIONAL: Final = 0x10
"""Place of the lower byte of a batch's attributes, and its bit."""


def transaction_refusal(asker: Asker, transactional_id: str, records: Iterable[Buffer]) -> Refusal | None:
    """Return why none of the records may be appended: some belong to a transaction whose id the asker may not WRITE."""
    for each in records:
        if len(each) > _ATTRIBUTES_AT and each[_ATTRIBUTES_AT] & _IS_TRANSACTIONAL:
            break
    else:
        return None
    if transactional_id and asker.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return None
    return asker.refusal(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


# --- produce ---------------------------------------------------------------------------------------------------------


def produce(
    asker: Asker, request: ProduceRequest, proceed: Callable[[ProduceRequest], Awaitable[ProduceResponse | None]]
) -> Awaitable[ProduceResponse | None]:
    """WRITE on each topic; for records of a transaction WRITE on its id, or nothing is appended.

    What is appended is so when this returns, or in its partition's queue.
    """
    if len(request.partitions) > ASKED_AT_ONCE:
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        CALLER.get().pace.begin_next_after(begun)
        # It is carried out, as any other request that arrived, when its client disconnects meanwhile.
        return asyncio.shield(asyncio.ensure_future(_produce_in_turns(asker, request, proceed, begun)))
    refusal = transaction_refusal(asker, request.transactional_id, (each.records for each in request.partitions))
    names = {each.topic for each in request.partitions}
    hidden = names if refusal is not None else {each for each in names if not asker.may_write(each)}
    if not hidden:
        return proceed(request)
    allowed = [each for each in request.partitions if each.topic not in hidden]
    answer = proceed(replace(request, partitions=allowed)) if allowed else None
    return _produced(request, answer, dict(_refusals(asker, hidden, refusal)))


async def _produce_in_turns(
    asker: Asker,
    request: ProduceRequest,
    proceed: Callable[[ProduceRequest], Awaitable[ProduceResponse | None]],
    begun: asyncio.Future[None],
) -> ProduceResponse | None:
    """Do the same for a request of so many partitions that others have turns."""
    try:
        refusal = transaction_refusal(asker, request.transactional_id, (each.records for each in request.partitions))
        await asyncio.sleep(0)
        names, hidden = {each.topic for each in request.partitions}, set[str]()
        async for piece in pieces(names, ASKED_AT_ONCE):
            hidden.update(piece if refusal is not None else [each for each in piece if not asker.may_write(each)])
        refused = dict(await collected(_refusals(asker, hidden, refusal), ASKED_AT_ONCE))
        allowed = request.partitions
        if refused:
            allowed = [each for each in allowed if each.topic not in refused]
        answer = proceed(replace(request, partitions=allowed)) if allowed else None
    finally:
        begun.set_result(None)
    if refused or answer is None:
        return await _produced(request, answer, refused)
    return await answer


def _refusals(asker: Asker, topics: Iterable[str], refusal: Refusal | None) -> Iterator[tuple[str, Refusal]]:
    """Yield the refusal of each topic: `refusal` if there is one for all of them."""
    for each in topics:
        yield each, refusal or asker.refusal(Operation.WRITE, _TOPIC, each)


async def _produced(
    request: ProduceRequest, begun: Awaitable[ProduceResponse | None] | None, refused: dict[str, Refusal]
) -> ProduceResponse | None:
    answer = None if begun is None else await begun
    if request.acks == ACKS_NONE:
        # There is no response that could say it.
        raise next(iter(refused.values()))
    found = iter(() if answer is None else answer.partitions)
    turns, results = Turns(ASKED_AT_ONCE), list[ProducePartitionResult]()
    for wanted in request.partitions:
        refusal = refused.get(wanted.topic)
        results.append(next(found) if refusal is None else _not_appended(wanted, refusal))
        await turns.done()
    return ProduceResponse(request_id=request.request_id, partitions=results)


def _not_appended(wanted: ProducePartition | ProduceRecordsRequest, refusal: Refusal) -> ProducePartitionResult:
    return ProducePartitionResult(
        topic=wanted.topic,
        partition=wanted.partition,
        error_code=refusal.error_code,
        error_message=refusal.message,
    )


async def produce_records(asker: Asker, request: ProduceRecordsRequest, proceed: Proceed) -> ProducePartitionResult:
    """WRITE on the topic."""
    if not asker.may(Operation.WRITE, _TOPIC, request.topic):
        return _not_appended(request, asker.refusal(Operation.WRITE, _TOPIC, request.topic))
    result: ProducePartitionResult = await proceed(request)
    return result


# --- fetch -----------------------------------------------------------------------------------------------------------

NONE_HIDDEN: Final[frozenset[str]] = frozenset()

Fetched = Awaitable[FetchResponse]


def hidden_topics(asker: Asker, topics: Iterable[str]) -> frozenset[str]:
    """Return those of the topics that the asker may not read."""
    readable = asker.readable
    # On the hot path: nearly always all of them are known to be readable.
    hidden = [each for each in topics if each not in readable and not asker.may_read(each)]
    return frozenset(hidden) if hidden else NONE_HIDDEN


async def hidden_in_turns(asker: Asker, topics: Iterable[str]) -> frozenset[str]:
    """Return the same for so many topics that others have turns."""
    hidden = set[str]()
    async for piece in pieces(topics, ASKED_AT_ONCE):
        hidden |= hidden_topics(asker, piece)
    return frozenset(hidden) or NONE_HIDDEN


def fetch(asker: Asker, request: FetchRequest, proceed: Callable[[FetchRequest], Fetched]) -> Fetched:
    """READ on each topic, when the fetch begins and, if it waits and the ACLs change meanwhile, when it ends."""
    if len(request.partitions) > ASKED_AT_ONCE:
        return _fetch_in_turns(asker, request, proceed)
    hidden = hidden_topics(asker, [each.topic for each in request.partitions])
    if not hidden:
        begun = proceed(request)
        if isinstance(begun, asyncio.Future) and begun.done():
            return begun
        return _fetched(asker, request, hidden, begun)
    return _fetched(asker, request, hidden, proceed(_without(request, hidden)))


async def _fetch_in_turns(
    asker: Asker, request: FetchRequest, proceed: Callable[[FetchRequest], Fetched]
) -> FetchResponse:
    hidden = await hidden_in_turns(asker, (each.topic for each in request.partitions))
    return await _fetched(asker, request, hidden, proceed(_without(request, hidden) if hidden else request))


def _without(request: FetchRequest, hidden: frozenset[str]) -> FetchRequest:
    # An error is told at once.
    allowed = [each for each in request.partitions if each.topic not in hidden]
    return replace(request, partitions=allowed, max_wait_ms=0)


async def _fetched(asker: Asker, request: FetchRequest, left_out: frozenset[str], begun: Fetched) -> FetchResponse:
    response = await begun
    hidden = left_out
    if (now := asker.now()) is not asker:
        hidden |= await hidden_in_turns(now, (each.topic for each in response.partitions))
    if not hidden:
        return response
    found = iter(response.partitions)
    turns, results = Turns(ASKED_AT_ONCE), list[FetchPartitionResult]()
    for wanted in request.partitions:
        result = None if wanted.topic in left_out else next(found)
        results.append(_not_read(wanted, asker) if result is None or wanted.topic in hidden else result)
        await turns.done()
    return FetchResponse(request_id=request.request_id, partitions=results)


def _not_read(wanted: FetchPartition, asker: Asker) -> FetchPartitionResult:
    refusal = asker.refusal(Operation.READ, _TOPIC, wanted.topic)
    return FetchPartitionResult(
        topic=wanted.topic,
        partition=wanted.partition,
        error_code=refusal.error_code,
        error_message=refusal.message,
    )


async def fetch_records(asker: Asker, request: FetchRecordsRequest, proceed: Proceed) -> FetchRecordsResponse:
    """READ on the topic, likewise."""
    if asker.may(Operation.READ, _TOPIC, request.topic):
        response: FetchRecordsResponse = await proceed(request)
        if asker.now().may(Operation.READ, _TOPIC, request.topic):
            return response
    refusal = asker.refusal(Operation.READ, _TOPIC, request.topic)
    return FetchRecordsResponse(error_code=refusal.error_code, error_message=refusal.message)
