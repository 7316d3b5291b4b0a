from __future__ import annotations

import threading
import time
from pathlib import Path

from chaos import recorder
from chaos.history import OperationType, Poll, Send
from chaos.recorder import Recorder


def test_operations_of_many_threads_are_one_sequence(tmp_path: Path) -> None:
    def work(name: str) -> None:
        for _ in range(200):
            notes.note(name, OperationType.INVOKE, Poll())

    with Recorder(tmp_path / "history") as notes:
        threads = [threading.Thread(target=work, args=(f"process-{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    operations = list(recorder.read(tmp_path / "history"))
    assert [operation.index for operation in operations] == list(range(800))
    times = [operation.time_ns for operation in operations]
    assert times == sorted(times)


def test_progress_is_what_was_acknowledged_since(tmp_path: Path) -> None:
    with Recorder(tmp_path / "history") as notes:
        notes.note("a", OperationType.OK, Send(key="early", values=(1, 2), offsets=(0, 1)))
        since = time.monotonic()
        notes.note("a", OperationType.INVOKE, Send(key="open", values=(3,)))
        notes.note("b", OperationType.INFO, Send(key="open", values=(3,)))
        notes.note("a", OperationType.OK, Send(key="late", values=(4,), offsets=(0,)))

        assert notes.keys_acknowledged_since(since) == {"late"}
        assert notes.acknowledged == 3
