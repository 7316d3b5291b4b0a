"""Brokers at which users log in, Kafka's and ours: they know the super user from their start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from kraft.model.principal import ANONYMOUS
from kraft.server.config.access_settings import STANDARD_AUTHORIZER
from kraft.testing import Cluster
from tests.end_to_end.kafka.differences.peer import PASSWORD, ROOT
from tests.end_to_end.kafka.differences.scenarios import GROUP_SETTINGS
from tests.support.closed_clusters import admin_of_node
from tests.support.kafka.kafka_broker import kafka_brokers
from tests.support.kafka.kafka_jars import kafka_jars

_SETTINGS: Final[Mapping[str, str]] = {
    **GROUP_SETTINGS,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    # Brokers of Kafka are anonymous to their controllers.
    "super.users": f"User:{ROOT};{ANONYMOUS}",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
}

_LOGINS: Final = "org.apache.kafka.common.security"
_PLAIN: Final = f'{_LOGINS}.plain.PlainLoginModule required username="{ROOT}" password="{PASSWORD}"'

_OF_KAFKA: Final[Mapping[str, str]] = {
    **_SETTINGS,
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    # Brokers log in at themselves, too.
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f'{_PLAIN} user_{ROOT}="{PASSWORD}";',
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{_LOGINS}.scram.ScramLoginModule required;",
}

_OF_KRAFT: Final[Mapping[str, str]] = {
    **_SETTINGS,
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,GRPC:SASL_PLAINTEXT",
}


@contextmanager
def kafka_with_users() -> Iterator[str]:
    """Give the address of a broker of Kafka."""
    with kafka_brokers(kafka_jars(), _OF_KAFKA) as (address,):
        yield address


@contextmanager
def kraft_with_users() -> Iterator[Cluster]:
    with Cluster(1, overrides=_OF_KRAFT) as cluster:
        with admin_of_node(cluster) as admin:
            admin.set_password(ROOT, PASSWORD, "SCRAM-SHA-256")
        yield cluster
