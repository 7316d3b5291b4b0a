from __future__ import annotations

import threading

from kraft.client.threads.client import ThreadClient, on_loop, waiting


class Asynchronous:
    """A client that says in which thread it is called."""

    async def waited(self) -> int:
        return threading.get_ident()

    def called(self) -> int:
        return threading.get_ident()


class Synchronous(ThreadClient[Asynchronous]):
    """Its methods for threads."""

    waited = waiting(Asynchronous.waited)
    called = on_loop(Asynchronous.called)


def test_methods_run_in_the_thread_of_the_event_loop() -> None:
    client = Synchronous(Asynchronous())
    assert client.waited() == client.called() != threading.get_ident()
