from __future__ import annotations

import pytest

from benchmarks import kafka_load
from benchmarks.kafka_load import MODULE, LoadFailed, run_load


def test_a_load_that_fails_says_which_and_why() -> None:
    with pytest.raises(LoadFailed, match=r"(?s)consume localhost: the load failed: .*'topic'"):
        run_load(MODULE, "consume", "localhost")


def test_a_load_that_does_not_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_load, "DEADLINE_S", 0)
    with pytest.raises(LoadFailed, match="consume localhost: the load did not end within 0 s"):
        run_load(MODULE, "consume", "localhost")
