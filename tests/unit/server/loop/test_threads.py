from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from kraft.server.loop.threads import in_thread


def test_work_is_done_in_a_thread_of_the_executor_and_its_result_awaited() -> None:
    async def scenario() -> None:
        def work(first: int, second: int) -> tuple[int, str]:
            return first + second, threading.current_thread().name

        with ThreadPoolExecutor(1, thread_name_prefix="store") as executor:
            total, thread = await in_thread(executor, work, 1, 2)
        assert total == 3
        assert thread.startswith("store")

    asyncio.run(scenario())
