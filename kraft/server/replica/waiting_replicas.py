"""The replicas whose logs are to be opened, in the order in which they came, by log directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kraft.model.ids import LogDirectory, TopicIdPartition


class WaitingReplicas:
    """Each waits for one log directory. No call looks at those that wait for the others."""

    def __init__(self) -> None:
        self._places: dict[TopicIdPartition, LogDirectory] = {}
        self._waiting_for: dict[LogDirectory, dict[TopicIdPartition, None]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, replica: TopicIdPartition) -> bool:
        return replica in self._places

    def add(self, replica: TopicIdPartition, directory: LogDirectory) -> None:
        """Have the replica wait for that directory, as the last one there unless it does so already."""
        if self._places.get(replica, directory) != directory:
            self.discard(replica)
        self._places[replica] = directory
        self._waiting_for.setdefault(directory, {})[replica] = None

    def discard(self, replica: TopicIdPartition) -> None:
        directory = self._places.pop(replica, None)
        if directory is not None:
            waiting = self._waiting_for[directory]
            del waiting[replica]
            if not waiting:
                del self._waiting_for[directory]

    def counts(self) -> Mapping[LogDirectory, int]:
        """Return how many wait for each directory; those for which none does are left out."""
        return {directory: len(waiting) for directory, waiting in self._waiting_for.items()}

    def of(self, directory: LogDirectory) -> Iterator[TopicIdPartition]:
        """Return those that wait for the directory now."""
        return iter(tuple(self._waiting_for.get(directory, ())))
