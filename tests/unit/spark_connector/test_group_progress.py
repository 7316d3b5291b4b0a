from __future__ import annotations

import logging
import threading

import pytest

from kraft.client import TopicPartition
from spark_connector.group_progress import GroupProgress
from spark_connector.offsets import Offsets

A0 = TopicPartition("a", 0)


def test_a_failure_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Semaphore(0)
    is_broken = True

    def commit(group_id: str, offsets: Offsets) -> None:
        done.release()
        if is_broken:
            raise ValueError("the group has members")

    progress = GroupProgress(commit)
    with caplog.at_level(logging.WARNING, "spark_connector"):
        for offset in range(3):
            progress.show("g", {A0: offset})
            done.acquire(timeout=10)
        is_broken = False
        progress.show("g", {A0: 9})
        progress.stop()
    assert caplog.text.count("offsets not committed, the query continues: group=g reason=the group has members") == 1
    assert caplog.text.count("offsets committed again: group=g") == 1


def test_what_could_not_be_committed_is_tried_again_when_it_is_shown_again() -> None:
    commits: list[Offsets] = []

    def commit(group_id: str, offsets: Offsets) -> None:
        commits.append(offsets)
        if len(commits) == 1:
            raise TimeoutError("the coordinator moves")

    progress = GroupProgress(commit)
    for _ in range(3):
        progress.show("g", {A0: 1})
        progress.flush()
    progress.stop()
    assert commits == [{A0: 1}, {A0: 1}]


def test_flushing_waits_until_all_is_committed() -> None:
    commits: list[Offsets] = []
    progress = GroupProgress(lambda group_id, offsets: commits.append(offsets))
    progress.flush()
    for offset in range(5):
        progress.show("g", {A0: offset})
    progress.flush()
    assert commits[-1] == {A0: 4}
    progress.stop()
