"""Synchronous admin client: runs `kraft.client.aio.admin.Admin` on the event loop thread of the process."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from kraft.client.aio.admin import Admin as AsyncAdmin
from kraft.client.cluster.network import Network
from kraft.client.model.settings import LOCAL_BROKER
from kraft.client.threads.client import ThreadClient, waiting


class Admin(ThreadClient[AsyncAdmin]):
    """Synchronous admin client, with the calls and errors of `kraft.client.aio.Admin`.

    May be used from any thread, but not in a forked process that did not create it.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = LOCAL_BROKER, *, network: Network | None = None, **settings: Any
    ) -> None:
        """Create an admin client; `settings` are the fields of AdminSettings. Raises InvalidSetting."""
        super().__init__(AsyncAdmin(bootstrap_servers, network=network, **settings))

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. May be called more than once."""
        if self._thread.is_of_this_process():
            self._thread.run(self._client.close)

    # --- topics ----------------------------------------------------------------------------------------------

    create_topic = waiting(AsyncAdmin.create_topic)
    create_topics = waiting(AsyncAdmin.create_topics)
    delete_topics = waiting(AsyncAdmin.delete_topics)
    list_topics = waiting(AsyncAdmin.list_topics)
    find_topics = waiting(AsyncAdmin.find_topics)
    describe_topics = waiting(AsyncAdmin.describe_topics)
    describe_topic_partitions = waiting(AsyncAdmin.describe_topic_partitions)
    create_partitions = waiting(AsyncAdmin.create_partitions)

    # --- leaders and replicas of partitions ------------------------------------------------------------------

    elect_leaders = waiting(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = waiting(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = waiting(AsyncAdmin.list_partition_reassignments)

    # --- records and their offsets ---------------------------------------------------------------------------

    delete_records = waiting(AsyncAdmin.delete_records)
    delete_records_of_many = waiting(AsyncAdmin.delete_records_of_many)
    list_offsets = waiting(AsyncAdmin.list_offsets)

    # --- configs ---------------------------------------------------------------------------------------------

    list_config_resources = waiting(AsyncAdmin.list_config_resources)
    describe_topic_configs = waiting(AsyncAdmin.describe_topic_configs)
    describe_configs_of_topics = waiting(AsyncAdmin.describe_configs_of_topics)
    describe_broker_configs = waiting(AsyncAdmin.describe_broker_configs)
    alter_broker_configs = waiting(AsyncAdmin.alter_broker_configs)
    describe_broker_loggers = waiting(AsyncAdmin.describe_broker_loggers)
    alter_broker_loggers = waiting(AsyncAdmin.alter_broker_loggers)
    alter_topic_configs = waiting(AsyncAdmin.alter_topic_configs)
    describe_group_configs = waiting(AsyncAdmin.describe_group_configs)
    alter_group_configs = waiting(AsyncAdmin.alter_group_configs)
    describe_client_metrics = waiting(AsyncAdmin.describe_client_metrics)
    alter_client_metrics = waiting(AsyncAdmin.alter_client_metrics)

    # --- the cluster: brokers, features, quotas, and the quorum ----------------------------------------------

    describe_cluster = waiting(AsyncAdmin.describe_cluster)
    describe_brokers = waiting(AsyncAdmin.describe_brokers)
    describe_clients = waiting(AsyncAdmin.describe_clients)
    describe_api_versions = waiting(AsyncAdmin.describe_api_versions)
    describe_log_directories = waiting(AsyncAdmin.describe_log_directories)
    alter_replica_log_directories = waiting(AsyncAdmin.alter_replica_log_directories)
    fence_broker = waiting(AsyncAdmin.fence_broker)
    unfence_broker = waiting(AsyncAdmin.unfence_broker)
    unregister_broker = waiting(AsyncAdmin.unregister_broker)
    describe_features = waiting(AsyncAdmin.describe_features)
    update_features = waiting(AsyncAdmin.update_features)
    describe_client_quotas = waiting(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = waiting(AsyncAdmin.alter_client_quotas)
    describe_quorum = waiting(AsyncAdmin.describe_quorum)

    # --- users that log in with a password -------------------------------------------------------------------

    describe_users = waiting(AsyncAdmin.describe_users)
    set_password = waiting(AsyncAdmin.set_password)
    delete_password = waiting(AsyncAdmin.delete_password)

    # --- ACLs: who may do what -------------------------------------------------------------------------------

    create_acls = waiting(AsyncAdmin.create_acls)
    describe_acls = waiting(AsyncAdmin.describe_acls)
    delete_acls = waiting(AsyncAdmin.delete_acls)

    # --- groups and their committed offsets ------------------------------------------------------------------

    list_groups = waiting(AsyncAdmin.list_groups)
    describe_group_lags = waiting(AsyncAdmin.describe_group_lags)
    describe_consumer_groups = waiting(AsyncAdmin.describe_consumer_groups)
    describe_many_groups = waiting(AsyncAdmin.describe_many_groups)
    list_offsets_of_many_groups = waiting(AsyncAdmin.list_offsets_of_many_groups)
    delete_consumer_groups = waiting(AsyncAdmin.delete_consumer_groups)
    remove_members_from_consumer_group = waiting(AsyncAdmin.remove_members_from_consumer_group)
    list_consumer_group_offsets = waiting(AsyncAdmin.list_consumer_group_offsets)
    alter_consumer_group_offsets = waiting(AsyncAdmin.alter_consumer_group_offsets)
    delete_consumer_group_offsets = waiting(AsyncAdmin.delete_consumer_group_offsets)

    # --- transactions and producers --------------------------------------------------------------------------

    list_transactions = waiting(AsyncAdmin.list_transactions)
    describe_transactions = waiting(AsyncAdmin.describe_transactions)
    find_transaction = waiting(AsyncAdmin.find_transaction)
    describe_producers = waiting(AsyncAdmin.describe_producers)
    abort_transaction = waiting(AsyncAdmin.abort_transaction)

    # --- transactions that several producers have prepared ---------------------------------------------------

    new_transactional_id = waiting(AsyncAdmin.new_transactional_id)
    commit_transactions = waiting(AsyncAdmin.commit_transactions)
    abort_transactions = waiting(AsyncAdmin.abort_transactions)
    abort_other_transactions = waiting(AsyncAdmin.abort_other_transactions)
