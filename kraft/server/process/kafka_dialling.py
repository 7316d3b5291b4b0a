"""Asks who is at an address, in Kafka's protocol: the cluster id or, where clients have to log in, only whether it is
spoken there.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, TypeVar

from kraft.model.callbacks import AsyncCall
from kraft.rpc.peers import Unreachable
from kraft.tls.failures import failure
from kraft.wire.declaration import Message
from kraft.wire.errors import ProtocolError
from kraft.wire.frame import SIZE_BYTES, decode_response, encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse

METADATA_VERSION: Final = 4
"""A version whose response has the cluster id, and whose request creates no topics."""

ANSWER_BYTES_MAX: Final = 1 << 20
"""Largest response: the brokers of a cluster, without topics, or the versions. Another program may claim any size."""

VERSIONS_VERSION: Final = 0
"""A version of ApiVersions that every broker answers, also before login."""

_CORRELATION_ID: Final = 1

M = TypeVar("M", bound=Message)
Found = TypeVar("Found")

At = tuple[str, int, ssl.SSLContext | None]
"""Host, port, and how to begin TLS there."""


async def cluster_at(host: str, port: int, timeout_s: float, tls: ssl.SSLContext | None = None) -> str:
    """Return the cluster id. Raises Unreachable, also for a response in another protocol."""

    async def ask() -> str:
        request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
        return (await _answer((host, port, tls), request, METADATA_VERSION, MetadataResponse)).cluster_id or ""

    return await _within(timeout_s, f"{host}:{port}", ask)


async def versions_at(host: str, port: int, timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
    """Ask for the versions of the APIs, which is all that is answered before login. Raises Unreachable as above."""

    async def ask() -> None:
        await _answer((host, port, tls), ApiVersionsRequest(), VERSIONS_VERSION, ApiVersionsResponse)

    await _within(timeout_s, f"{host}:{port}", ask)


async def certificate_at(host: str, port: int, timeout_s: float, tls: ssl.SSLContext | None) -> bytes | None:
    """Return the certificate that is shown, in DER, also if that of this node is not accepted. Raises Unreachable."""

    async def ask() -> bytes | None:
        _, writer = await asyncio.open_connection(host, port, ssl=tls)
        found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        return found

    return await _within(timeout_s, f"{host}:{port}", ask)


async def _within(timeout_s: float, address: str, ask: AsyncCall[Found]) -> Found:
    try:
        async with asyncio.timeout(timeout_s):
            return await ask()
    except TimeoutError:
        raise Unreachable(address, "no answer within the time allowed") from None
    except ConnectionRefusedError:
        raise Unreachable(address, "connection refused") from None
    except ssl.SSLError as error:
        raise Unreachable(address, failure(error)) from error
    except OSError as error:
        raise Unreachable(address, error.strerror or str(error)) from error
    except (asyncio.IncompleteReadError, ProtocolError) as error:
        raise Unreachable(address, "the answer is not in Kafka's protocol") from error


async def _answer(at: At, request: Message, version: int, response: type[M]) -> M:
    host, port, tls = at
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        writer.writelines(encode_request(request, version, _CORRELATION_ID, "kraft"))
        size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
        if size > ANSWER_BYTES_MAX:
            raise ProtocolError(f"an answer of {size} bytes, longer than any that was asked for")
        correlation_id, answer = decode_response(response, version, await reader.readexactly(size))
        if correlation_id != _CORRELATION_ID:
            raise ProtocolError(f"an answer to request {correlation_id}, which was not sent")
        return answer
    finally:
        writer.close()
