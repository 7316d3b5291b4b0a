"""What the client needs of the network. `kraft.rpc.peers` offers it; tests offer a cluster in memory.

All calls raise `Unreachable`, which means that the outcome on the other side is unknown.
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
    """Requests are answered in their order; a produce request with acks=0 is not answered."""

    async def send(self, request: Sent_contra, /) -> None: ...
    async def finish(self) -> None:
        """No more is sent. The broker ends the stream when it has carried out everything."""

    async def receive(self) -> Received_co: ...
    async def close(self) -> None: ...


ProduceStream: TypeAlias = OpenStream[ProduceRequest, ProduceResponse]
FetchStream: TypeAlias = OpenStream[FetchRequest, FetchResponse]


class Node(Protocol):
    """A node of the cluster, as its clients see it."""

    async def call(self, call: Call[Request, Response], request: Request, timeout_s: float) -> Response: ...
    def open(self, stream: Stream[Request, Response]) -> OpenStream[Request, Response]: ...


class Connections(Protocol):
    """One channel for each address, opened at first use."""

    def peer(self, address: str) -> Node: ...
    async def close(self) -> None: ...
