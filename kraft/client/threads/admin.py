"""Synchronous admin client: runs `kraft.client.aio.admin.Admin` on the event loop thread of the process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from kraft.client.aio.admin import Admin as AsyncAdmin
from kraft.client.cluster.network import Network
from kraft.client.model.settings import LOCAL_BROKER
from kraft.client.threads.loop_thread import LoopThread, shared_loop

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _blocking(
    method: Callable[Concatenate[AsyncAdmin, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Admin, Parameters], Result]:
    """Return the blocking form of a method, with its docstring and types."""

    @wraps(method)
    def wait(admin: Admin, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        # A generator runs in the caller's thread: it may call this admin client.
        args = tuple(map(_exhausted, args))  # type: ignore[assignment]  # A ParamSpec cannot say "the same types".
        kwargs = {name: _exhausted(value) for name, value in kwargs.items()}  # type: ignore[assignment]  # As above.
        return admin._thread.run(method(admin._admin, *args, **kwargs))

    return wait


def _exhausted(argument: object) -> object:
    return list(argument) if isinstance(argument, Iterator) else argument


class Admin:
    """Synchronous admin client, with the calls and errors of `kraft.client.aio.Admin`.

    May be used from any thread, but not in a forked process that did not create it.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = LOCAL_BROKER, *, network: Network | None = None, **settings: Any
    ) -> None:
        """Create an admin client; `settings` are the fields of AdminSettings. Raises InvalidSetting."""
        self._admin = AsyncAdmin(bootstrap_servers, network=network, **settings)
        self._thread: LoopThread = shared_loop()

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. May be called more than once."""
        if self._thread.is_of_this_process():
            self._thread.run(self._admin.close())

    # --- topics ----------------------------------------------------------------------------------------------

    create_topic = _blocking(AsyncAdmin.create_topic)
    create_topics = _blocking(AsyncAdmin.create_topics)
    delete_topics = _blocking(AsyncAdmin.delete_topics)
    list_topics = _blocking(AsyncAdmin.list_topics)
    find_topics = _blocking(AsyncAdmin.find_topics)
    describe_topics = _blocking(AsyncAdmin.describe_topics)
    create_partitions = _blocking(AsyncAdmin.create_partitions)

    # --- leaders and replicas of partitions ------------------------------------------------------------------

    elect_leaders = _blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = _blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = _blocking(AsyncAdmin.list_partition_reassignments)

    # --- records and their offsets ---------------------------------------------------------------------------

    delete_records = _blocking(AsyncAdmin.delete_records)
    list_offsets = _blocking(AsyncAdmin.list_offsets)

    # --- configs ---------------------------------------------------------------------------------------------

    describe_topic_configs = _blocking(AsyncAdmin.describe_topic_configs)
    describe_configs_of_topics = _blocking(AsyncAdmin.describe_configs_of_topics)
    describe_broker_configs = _blocking(AsyncAdmin.describe_broker_configs)
    alter_broker_configs = _blocking(AsyncAdmin.alter_broker_configs)
    alter_topic_configs = _blocking(AsyncAdmin.alter_topic_configs)
    describe_group_configs = _blocking(AsyncAdmin.describe_group_configs)
    alter_group_configs = _blocking(AsyncAdmin.alter_group_configs)

    # --- the cluster: brokers, features, quotas, and the quorum ----------------------------------------------

    describe_cluster = _blocking(AsyncAdmin.describe_cluster)
    describe_brokers = _blocking(AsyncAdmin.describe_brokers)
    describe_log_directories = _blocking(AsyncAdmin.describe_log_directories)
    fence_broker = _blocking(AsyncAdmin.fence_broker)
    unfence_broker = _blocking(AsyncAdmin.unfence_broker)
    unregister_broker = _blocking(AsyncAdmin.unregister_broker)
    describe_features = _blocking(AsyncAdmin.describe_features)
    update_features = _blocking(AsyncAdmin.update_features)
    describe_client_quotas = _blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = _blocking(AsyncAdmin.alter_client_quotas)
    describe_quorum = _blocking(AsyncAdmin.describe_quorum)

    # --- groups and their committed offsets ------------------------------------------------------------------

    list_groups = _blocking(AsyncAdmin.list_groups)
    describe_consumer_groups = _blocking(AsyncAdmin.describe_consumer_groups)
    delete_consumer_groups = _blocking(AsyncAdmin.delete_consumer_groups)
    remove_members_from_consumer_group = _blocking(AsyncAdmin.remove_members_from_consumer_group)
    list_consumer_group_offsets = _blocking(AsyncAdmin.list_consumer_group_offsets)
    alter_consumer_group_offsets = _blocking(AsyncAdmin.alter_consumer_group_offsets)
    delete_consumer_group_offsets = _blocking(AsyncAdmin.delete_consumer_group_offsets)

    # --- transactions and producers --------------------------------------------------------------------------

    list_transactions = _blocking(AsyncAdmin.list_transactions)
    describe_transactions = _blocking(AsyncAdmin.describe_transactions)
    describe_producers = _blocking(AsyncAdmin.describe_producers)
    abort_transaction = _blocking(AsyncAdmin.abort_transaction)

    # --- transactions that several producers have prepared ---------------------------------------------------

    new_transactional_id = _blocking(AsyncAdmin.new_transactional_id)
    commit_transactions = _blocking(AsyncAdmin.commit_transactions)
    abort_transactions = _blocking(AsyncAdmin.abort_transactions)
    abort_other_transactions = _blocking(AsyncAdmin.abort_other_transactions)
