"""Asyncio admin client: each of its methods is a function of one of the `*_admin` modules beside this one."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from kraft.client.aio import (
    acl_admin,
    cluster_admin,
    config_admin,
    directory_admin,
    group_admin,
    many_groups,
    partition_admin,
    record_admin,
    topic_admin,
    transaction_admin,
    transaction_commits,
    user_admin,
)
from kraft.client.aio.admin_calls import AdminCalls
from kraft.client.cluster.network import Network
from kraft.client.model.settings import LOCAL_BROKER, AdminSettings, settings_of


class Admin:
    """Asyncio admin client. A call tries one node after the other for at most `default_api_timeout_ms`.

    Raises NoBrokerReachable, which names every address that was tried, or the cluster's Refusal. Some brokers may not
    know a new topic for a moment; producers and consumers wait for that.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = LOCAL_BROKER, *, network: Network | None = None, **settings: Any
    ) -> None:
        """Create an admin client; `settings` are the fields of AdminSettings. Connects at first use.

        Raises InvalidSetting.
        """
        self.calls = AdminCalls(settings_of(AdminSettings, bootstrap_servers, settings), network or Network())
        """For the functions below; no part of the client's interface."""

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. May be called more than once."""
        await self.calls.close()

    # --- topics ----------------------------------------------------------------------------------------------

    create_topic = topic_admin.create_topic
    create_topics = topic_admin.create_topics
    delete_topics = topic_admin.delete_topics
    list_topics = topic_admin.list_topics
    find_topics = topic_admin.find_topics
    describe_topics = topic_admin.describe_topics
    describe_topic_partitions = topic_admin.describe_topic_partitions
    create_partitions = topic_admin.create_partitions

    # --- leaders and replicas of partitions ------------------------------------------------------------------

    elect_leaders = partition_admin.elect_leaders
    alter_partition_reassignments = partition_admin.alter_partition_reassignments
    list_partition_reassignments = partition_admin.list_partition_reassignments

    # --- records and their offsets ---------------------------------------------------------------------------

    delete_records = record_admin.delete_records
    delete_records_of_many = record_admin.delete_records_of_many
    list_offsets = record_admin.list_offsets

    # --- configs ---------------------------------------------------------------------------------------------

    list_config_resources = config_admin.list_config_resources
    describe_topic_configs = config_admin.describe_topic_configs
    describe_configs_of_topics = config_admin.describe_configs_of_topics
    describe_broker_configs = config_admin.describe_broker_configs
    alter_broker_configs = config_admin.alter_broker_configs
    describe_broker_loggers = config_admin.describe_broker_loggers
    alter_broker_loggers = config_admin.alter_broker_loggers
    alter_topic_configs = config_admin.alter_topic_configs
    describe_group_configs = config_admin.describe_group_configs
    alter_group_configs = config_admin.alter_group_configs
    describe_client_metrics = config_admin.describe_client_metrics
    alter_client_metrics = config_admin.alter_client_metrics

    # --- the cluster: brokers, features, quotas, and the quorum ----------------------------------------------

    describe_cluster = cluster_admin.describe_cluster
    describe_brokers = cluster_admin.describe_brokers
    describe_clients = cluster_admin.describe_clients
    describe_api_versions = cluster_admin.describe_api_versions
    describe_log_directories = directory_admin.describe_log_directories
    alter_replica_log_directories = directory_admin.alter_replica_log_directories
    fence_broker = cluster_admin.fence_broker
    unfence_broker = cluster_admin.unfence_broker
    unregister_broker = cluster_admin.unregister_broker
    describe_features = cluster_admin.describe_features
    update_features = cluster_admin.update_features
    describe_client_quotas = cluster_admin.describe_client_quotas
    alter_client_quotas = cluster_admin.alter_client_quotas
    describe_quorum = cluster_admin.describe_quorum

    # --- users that log in with a password -------------------------------------------------------------------

    describe_users = user_admin.describe_users
    set_password = user_admin.set_password
    delete_password = user_admin.delete_password

    # --- ACLs: who may do what -------------------------------------------------------------------------------

    create_acls = acl_admin.create_acls
    describe_acls = acl_admin.describe_acls
    delete_acls = acl_admin.delete_acls

    # --- groups and their committed offsets ------------------------------------------------------------------

    list_groups = group_admin.list_groups
    describe_group_lags = group_admin.describe_group_lags
    describe_consumer_groups = group_admin.describe_consumer_groups
    describe_many_groups = many_groups.describe_many_groups
    list_offsets_of_many_groups = many_groups.list_offsets_of_many_groups
    delete_consumer_groups = group_admin.delete_consumer_groups
    remove_members_from_consumer_group = group_admin.remove_members_from_consumer_group
    list_consumer_group_offsets = group_admin.list_consumer_group_offsets
    alter_consumer_group_offsets = group_admin.alter_consumer_group_offsets
    delete_consumer_group_offsets = group_admin.delete_consumer_group_offsets

    # --- transactions and producers --------------------------------------------------------------------------

    list_transactions = transaction_admin.list_transactions
    describe_transactions = transaction_admin.describe_transactions
    find_transaction = transaction_admin.find_transaction
    describe_producers = transaction_admin.describe_producers
    abort_transaction = transaction_admin.abort_transaction

    # --- transactions that several producers have prepared ---------------------------------------------------

    new_transactional_id = transaction_commits.new_transactional_id
    commit_transactions = transaction_commits.commit_transactions
    abort_transactions = transaction_commits.abort_transactions
    abort_other_transactions = transaction_commits.abort_other_transactions
