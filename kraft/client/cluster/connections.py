"""Interface between the client and the network. `kraft.rpc.peers` implements it; tests use a cluster in memory.

All calls raise `Unreachable`, after which it is unknown whether the other side carried the request out, or the Refusal
that ended the call.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, TypeVar

from kraft.model.fetch import FetchRequest, FetchResponse
from kraft.model.produce import ProduceRequest, ProduceResponse
from kraft.rpc.call import Call, Stream

Request = TypeVar("Request")
Response = TypeVar("Response")
Sent_contra = TypeVar("Sent_contra", contravariant=True)
Received_co = TypeVar("Received_co", covariant=True)


class OpenStream(Protocol[Sent_contra, Received_co]):
    """A stream of requests, answered in order. A produce request with acks=0 gets no response."""

    async def send(self, request: Sent_contra, /) -> None: ...
    async def finish(self) -> None:
        """End sending. The broker ends the stream when it has carried out every request."""

    async def receive(self) -> Received_co: ...
    async def close(self) -> None: ...


ProduceStream: TypeAlias = OpenStream[ProduceRequest, ProduceResponse]
FetchStream: TypeAlias = OpenStream[FetchRequest, FetchResponse]


class PeerNode(Protocol):
    """A node of the cluster as the client sees it."""

    async def call(self, call: Call[Request, Response], request: Request, timeout_s: float) -> Response: ...
    def open(self, stream: Stream[Request, Response]) -> OpenStream[Request, Response]: ...


class Connections(Protocol):
    """Channels to nodes: one for each address, opened at first use."""

    def peer(self, address: str, client_id: str = "") -> PeerNode: ...
    async def close(self) -> None: ...
