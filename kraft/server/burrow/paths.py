"""Answers the paths below /v3/kafka. They only read: Burrow's DELETE, which asks nobody who he is, is not there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import unquote

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.group_lags import GroupLag
from kraft.rpc.peers import Unreachable
from kraft.server.broker.cluster_lags import ClusterLags
from kraft.server.burrow.answers import Answer, group_status, group_topics, readers
from kraft.server.http.messages import Request, Response
from kraft.server.http.node_loop import LoopHangs, on_node_loop

ROOT: Final = "/v3/kafka"

ANSWER_S_MAX: Final = 8.0
"""Longest wait for the node's loop and the brokers that it asks: less than a connection allows for an answer."""


class Found(NamedTuple):
    message: str
    fields: Answer
    status: int = HTTPStatus.OK
    is_error: bool = False


def _refused(message: str, status: int) -> Found:
    return Found(message, {}, status, is_error=True)


class _Refused(Exception):
    def __init__(self, message: str, status: int = HTTPStatus.NOT_FOUND) -> None:
        super().__init__(message)
        self.status = status


LagsByNow = Callable[[], ClusterLags | None]
"""Returns what is asked; None while the node starts, or if it is no broker. Call it on the node's loop."""


class BurrowPaths:
    def __init__(self, node_loop: asyncio.AbstractEventLoop, lags: LagsByNow) -> None:
        self._node_loop = node_loop
        self._lags = lags

    async def answer(self, request: Request) -> Response:
        """Answer in the listener's thread."""
        try:
            found = await on_node_loop(self._node_loop, self._found(request.path), ANSWER_S_MAX)
        except LoopHangs:
            found = _refused("the node's event loop does not answer", HTTPStatus.SERVICE_UNAVAILABLE)
        content = {"error": found.is_error, "message": found.message, **found.fields}
        content["request"] = {"url": request.path, "host": ""}
        return Response(body=json.dumps(content).encode() + b"\n", status=found.status, content_type="application/json")

    async def _found(self, path: str) -> Found:
        lags = self._lags()
        if lags is None:
            return _refused("this node is no broker, or it has not started yet", HTTPStatus.SERVICE_UNAVAILABLE)
        parts = [unquote(each) for each in path.removeprefix(ROOT).split("/") if each]
        try:
            if not parts:
                return Found("cluster list returned", {"clusters": [lags.cluster_id]})
            if parts[0] != lags.cluster_id:
                raise _Refused(f"cluster not found: this is {lags.cluster_id}")
            return await self._of_cluster(lags, parts[1:])
        except _Refused as missing:
            return _refused(str(missing), missing.status)
        except (Unreachable, Refusal) as error:
            return _refused(f"a coordinator does not answer: {error}", HTTPStatus.SERVICE_UNAVAILABLE)

    async def _of_cluster(self, lags: ClusterLags, parts: list[str]) -> Found:
        match parts:
            case []:
                return Found("cluster module detail returned", {"module": {"class-name": "kraft", "servers": []}})
            case ["consumer"]:
                groups = [each.group_id for each in await lags.of_all()]
                return Found("consumer list returned", {"consumers": groups})
            case ["consumer", group]:
                found = await _known(lags, group)
                topics = group_topics(found, lags.partition_counts(found))
                return Found("consumer detail returned", {"topics": topics})
            case ["consumer", group, "status" | "lag" as how]:
                return await _status(lags, group, shows_all=how == "lag")
            case ["topic"]:
                return Found("topic list returned", {"topics": lags.topics()})
            case ["topic", topic]:
                return await _topic(lags, topic)
            case ["topic", topic, "consumers"]:
                return Found("consumers of topic returned", {"consumers": readers(await lags.of_all(), topic)})
            case _:
                raise _Refused("there is no such path")


async def _known(lags: ClusterLags, group: str) -> GroupLag:
    found = await lags.of_group(group)
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise _Refused("cluster or consumer not found")
    if found.error_code != ErrorCode.NONE:
        # Not 404: the group may well be there.
        raise _Refused(found.error_message, HTTPStatus.SERVICE_UNAVAILABLE)
    return found


async def _status(lags: ClusterLags, group: str, *, shows_all: bool) -> Found:
    found = await lags.of_group(group)
    if found.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise _Refused(found.error_message, HTTPStatus.SERVICE_UNAVAILABLE)
    # As Burrow has it: 404, and yet no error.
    status = HTTPStatus.OK if found.error_code == ErrorCode.NONE else HTTPStatus.NOT_FOUND
    fields = {"status": group_status(lags.cluster_id, found, lags.partition_counts(found), shows_all=shows_all)}
    return Found("consumer status returned", fields, status)


async def _topic(lags: ClusterLags, topic: str) -> Found:
    ends = await lags.log_ends(topic)
    if ends is None:
        raise _Refused("cluster or topic not found")
    return Found("topic offsets returned", {"offsets": [0 if each is None else each for each in ends]})
