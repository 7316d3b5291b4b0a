"""The health of a log: what disk errors mean for it."""

from __future__ import annotations

from typing import NoReturn

from kraft.log.change import Change, Result
from kraft.log.disk import File, is_shortage, lacks_files
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition


class LogHealth:
    """State of one log: writable, or failed for good."""

    def __init__(self, directory: str, topic_partition: TopicPartition) -> None:
        self._directory = directory
        self._topic_partition = topic_partition
        self.failure: str | None = None
        """The reason why the log accepts no more appends; None if it is healthy."""

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory was renamed to this."""
        self._directory = directory

    def check_writable(self) -> None:
        if self.failure is not None:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._topic_partition} is offline: {self.failure}")

    def guarding(self, change: Change[Result]) -> Change[Result]:
        """Run the change and raise its OSErrors as Refusals."""
        try:
            return (yield from change)
        except OSError as error:
            self.refuse(error)

    def refuse(self, error: OSError) -> NoReturn:
        """Raise the error as a Refusal. After a shortage the log can retry; any other error fails the log."""
        if is_shortage(error):
            problem = "no files to open" if lacks_files(error) else "the disk is full"
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._topic_partition}: {problem}") from error
        self.fail(error)

    def refuse_read(self, error: OSError) -> NoReturn:
        """Raise the error of a read as a Refusal. Only for want of files can it be repeated."""
        if lacks_files(error):
            self.refuse(error)
        self.fail(error)

    def tolerate_shortage(self, error: OSError) -> None:
        """Ignore a shortage, in work that only saves later work; any other error fails the log."""
        if not is_shortage(error):
            self.fail(error)

    def sync(self, file: File) -> Change[None]:
        """Sync the file. Any failure, a full disk included, has lost data and fails the log."""
        try:
            yield file.sync
        except OSError as error:
            self.fail(error)

    def fail(self, error: OSError) -> NoReturn:
        """Fail the log for good: it is unknown which bytes the disk holds, so nothing is retried. Raises Refusal."""
        self.failure = self.failure or f"{self._directory}: {error}"
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._topic_partition} goes offline: {error}") from error
