"""Asks for the cluster id at an address, in Kafka's protocol."""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.rpc.peers import Unreachable
from kraft.wire.errors import ProtocolError
from kraft.wire.frame import SIZE_BYTES, decode_response, encode_request
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse

METADATA_VERSION: Final = 4
"""A version whose response has the cluster id, and whose request creates no topics."""

ANSWER_BYTES_MAX: Final = 1 << 20
"""Largest response: the brokers of a cluster, without topics. Another program may claim any size."""

_CORRELATION_ID: Final = 1


async def cluster_at(host: str, port: int, timeout_s: float) -> str:
    """Return the cluster id. Raises Unreachable, also for a response in another protocol."""
    address = f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout_s):
            return await _ask(host, port)
    except TimeoutError:
        raise Unreachable(address, "no answer within the time allowed") from None
    except ConnectionRefusedError:
        raise Unreachable(address, "connection refused") from None
    except OSError as error:
        raise Unreachable(address, error.strerror or str(error)) from error
    except (asyncio.IncompleteReadError, ProtocolError) as error:
        raise Unreachable(address, "the answer is not in Kafka's protocol") from error


async def _ask(host: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
        writer.writelines(encode_request(request, METADATA_VERSION, _CORRELATION_ID, "kraft"))
        size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
        if size > ANSWER_BYTES_MAX:
            raise ProtocolError(f"an answer of {size} bytes to a request for the cluster's id")
        correlation_id, response = decode_response(MetadataResponse, METADATA_VERSION, await reader.readexactly(size))
        if correlation_id != _CORRELATION_ID:
            raise ProtocolError(f"an answer to request {correlation_id}, which was not sent")
        return response.cluster_id or ""
    finally:
        writer.close()
