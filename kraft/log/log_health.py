"""Whether a log can go on, and what an error of its disk means for that."""

from __future__ import annotations

from typing import NoReturn

from kraft.log.change import Change, Result
from kraft.log.disk import File, is_disk_full
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition


class LogHealth:
    def __init__(self, directory: str, topic_partition: TopicPartition) -> None:
        self._directory = directory
        self._topic_partition = topic_partition
        self.failure: str | None = None
        """Why the log takes no more appends; None while all is well."""

    def moved_to(self, directory: str) -> None:
        """The log's directory has this name now."""
        self._directory = directory

    def check_writable(self) -> None:
        if self.failure is not None:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._topic_partition} is offline: {self.failure}")

    def guarding(self, change: Change[Result]) -> Change[Result]:
        """The change, with its errors as refusals."""
        try:
            return (yield from change)
        except OSError as error:
            self.refuse(error)

    def refuse(self, error: OSError) -> NoReturn:
        """A full disk changed nothing that cannot be done again when there is room; any other error is the end."""
        if is_disk_full(error):
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._topic_partition}: the disk is full") from error
        self.fail(error)

    def tolerate_full_disk(self, error: OSError) -> None:
        """For work that only makes a later one shorter."""
        if not is_disk_full(error):
            self.fail(error)

    def sync(self, file: File) -> Change[None]:
        """A sync that fails has lost data whatever the reason, a full disk included."""
        try:
            yield file.sync
        except OSError as error:
            self.fail(error)

    def fail(self, error: OSError) -> NoReturn:
        """What the disk did with the bytes is not known any more, so nothing is tried again on it."""
        self.failure = self.failure or f"{self._directory}: {error}"
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._topic_partition} goes offline: {error}") from error
