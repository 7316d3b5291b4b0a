"""The admin client for threads: a face of `kraft.client.aio.admin.Admin` on the process's event loop thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from kraft.client.aio.admin import Admin as AsyncAdmin
from kraft.client.cluster_admin import ClusterAdmin
from kraft.client.loop_thread import LoopThread, shared_loop
from kraft.client.network import Network
from kraft.client.settings import DEFAULT_BOOTSTRAP_SERVERS
from kraft.model.configs import ConfigEntry
from kraft.model.errors import Refusal
from kraft.model.ids import TopicPartition
from kraft.model.metadata import MetadataResponse
from kraft.model.partitions import ElectionType, OngoingReassignment
from kraft.model.topics import NewTopic, TopicDescription, TopicResult


class Admin(ClusterAdmin):
    """As the asynchronous one, with the same errors. May be used from any thread, but not across a fork."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = DEFAULT_BOOTSTRAP_SERVERS,
        *,
        network: Network | None = None,
        **settings: Any,
    ) -> None:
        self._admin = AsyncAdmin(bootstrap_servers, network=network, **settings)
        self._thread: LoopThread = shared_loop()

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """May be called again."""
        if self._thread.is_of_this_process():
            self._thread.run(self._admin.close())

    def create_topic(
        self,
        topic: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: dict[str, str] | None = None,
    ) -> TopicResult:
        """Creates one topic; -1 stands for the cluster's default. Raises the Refusal if it is refused."""
        return self._thread.run(self._admin.create_topic(topic, partitions, replication_factor, configs))

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> list[TopicResult]:
        """Creates each; raises the first Refusal after all were tried."""
        return self._thread.run(self._admin.create_topics(topics, validate_only=validate_only, timeout_ms=timeout_ms))

    def delete_topics(self, topics: Sequence[str], *, timeout_ms: int | None = None) -> list[TopicResult]:
        """Deletes each; raises the first Refusal after all were tried."""
        return self._thread.run(self._admin.delete_topics(topics, timeout_ms=timeout_ms))

    def list_topics(self, *, timeout_ms: int | None = None) -> list[str]:
        """Names of all topics, sorted."""
        return self._thread.run(self._admin.list_topics(timeout_ms=timeout_ms))

    def describe_topics(self, topics: Iterable[str] = (), *, timeout_ms: int | None = None) -> list[TopicDescription]:
        """State and configs of the topics, sorted by name; all when none is named. Raises for a missing one."""
        return self._thread.run(self._admin.describe_topics(list(topics), timeout_ms=timeout_ms))

    def create_partitions(
        self,
        topic: str,
        total_count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> TopicResult:
        """Adds partitions to the topic until it has `total_count`; there is no way back.

        `assignments` are the brokers of each new one, preferred leader first; without it they are placed evenly.
        Raises the Refusal if it is refused.
        """
        return self._thread.run(
            self._admin.create_partitions(
                topic, total_count, assignments, validate_only=validate_only, timeout_ms=timeout_ms
            )
        )

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Refusal | None]:
        """Elects for each of the partitions, for all of the cluster without them; says which were refused, and why.

        ELECTION_NOT_NEEDED is such a refusal; for all of the cluster those are left out. An unclean election loses
        the records that the new leader does not have.
        """
        names = None if partitions is None else list(partitions)
        return self._thread.run(self._admin.elect_leaders(election_type, names, timeout_ms=timeout_ms))

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Refusal | None]:
        """Begins to move each partition to these brokers, preferred leader first; None cancels what is under way.

        Says which were refused, and why. The others are under way: `list_partition_reassignments` tells how long.
        """
        return self._thread.run(
            self._admin.alter_partition_reassignments(
                reassignments,
                allow_replication_factor_change=allow_replication_factor_change,
                timeout_ms=timeout_ms,
            )
        )

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OngoingReassignment]:
        """The reassignments that are under way: of these partitions, or of the whole cluster."""
        names = None if partitions is None else list(partitions)
        return self._thread.run(self._admin.list_partition_reassignments(names, timeout_ms=timeout_ms))

    def delete_records(
        self, before_offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Deletes the records below an offset of each partition; HIGH_WATERMARK (-1) deletes all that are committed.

        Returns each partition's low watermark, which is its first offset that is kept.
        """
        return self._thread.run(self._admin.delete_records(before_offsets, timeout_ms=timeout_ms))

    def describe_topic_configs(self, topic: str, *, timeout_ms: int | None = None) -> list[ConfigEntry]:
        """Every config of the topic as it is in effect, with its source and synonyms, by key."""
        return self._thread.run(self._admin.describe_topic_configs(topic, timeout_ms=timeout_ms))

    def describe_broker_configs(self, broker_id: int | None, *, timeout_ms: int | None = None) -> list[ConfigEntry]:
        """Every config of the broker: of its own file, and what was set over it while it runs, by key.

        None stands for what was set for all brokers. Raises BROKER_NOT_AVAILABLE for one that is not in service.
        """
        return self._thread.run(self._admin.describe_broker_configs(broker_id, timeout_ms=timeout_ms))

    def alter_broker_configs(
        self,
        broker_id: int | None,
        configs: Mapping[str, str] | None = None,
        *,
        delete: Iterable[str] = (),
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Sets `configs` over what the broker's file says, and takes the keys of `delete` back to that.

        None stands for all brokers that set nothing themselves. In effect without a restart; a key that needs one is
        refused.
        """
        return self._thread.run(
            self._admin.alter_broker_configs(
                broker_id, configs, delete=list(delete), validate_only=validate_only, timeout_ms=timeout_ms
            )
        )

    def alter_topic_configs(
        self,
        topic: str,
        configs: Mapping[str, str] | None = None,
        *,
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Sets `configs` and takes the keys of `delete` back to their defaults: all of it, or the Refusal is raised.

        `append` and `subtract` are for keys whose value is a list. What is not named stays as it is; what is set is
        in effect without a restart, on each broker within moments.
        """
        return self._thread.run(
            self._admin.alter_topic_configs(
                topic,
                configs,
                delete=list(delete),
                append=append,
                subtract=subtract,
                validate_only=validate_only,
                timeout_ms=timeout_ms,
            )
        )

    def describe_cluster(self, *, timeout_ms: int | None = None) -> MetadataResponse:
        """Cluster id, controller, brokers, and every topic with the leaders of its partitions."""
        return self._thread.run(self._admin.describe_cluster(timeout_ms=timeout_ms))
