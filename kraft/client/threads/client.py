"""Base of the clients for threads, and what makes their methods from those of the asyncio clients.

`waiting` and `on_loop` return a method with the docstring and the types of the given one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from kraft.client.threads.loop_thread import LoopThread, shared_loop

Client = TypeVar("Client")
Client_co = TypeVar("Client_co", covariant=True)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class ThreadClient(Generic[Client_co]):
    """A client for threads: runs an asyncio client on the event loop thread of the process."""

    def __init__(self, client: Client_co) -> None:
        self._client = client
        self._thread: LoopThread = shared_loop()

    def _on_loop(self, call: Callable[[], Result]) -> Result:
        """Call the function on the event loop, and return its result."""

        async def run() -> Result:
            return call()

        return self._thread.run(run)


Blocking: TypeAlias = Callable[Concatenate[ThreadClient[Client], Parameters], Result]
"""The blocking form of a method."""


def waiting(
    method: Callable[Concatenate[Client, Parameters], Coroutine[Any, Any, Result]],
) -> Blocking[Client, Parameters, Result]:
    """Return the blocking form of a coroutine method."""

    @wraps(method)
    def wait(client: ThreadClient[Client], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        # A generator runs in the caller's thread: it may call this client.
        args = tuple(map(_exhausted, args))  # type: ignore[assignment]  # A ParamSpec cannot say "the same types".
        kwargs = {name: _exhausted(value) for name, value in kwargs.items()}  # type: ignore[assignment]  # As above.
        return client._thread.run(partial(method, client._client, *args, **kwargs))

    return wait


def on_loop(method: Callable[Concatenate[Client, Parameters], Result]) -> Blocking[Client, Parameters, Result]:
    """Return the blocking form of a method that is no coroutine, but belongs to the event loop."""

    async def called(client: Client, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return method(client, *args, **kwargs)

    return waiting(wraps(method)(called))


def _exhausted(argument: object) -> object:
    return list(argument) if isinstance(argument, Iterator) else argument
