"""The topics that match regular expressions of groups: those that a member may describe."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from msgspec.structs import replace

from kraft.metadata.acls import AclEntry
from kraft.metadata.authorizer import CurrentAuthorizer, Requester
from kraft.model.access import Operation
from kraft.model.ids import TopicId
from kraft.server.access.asker import Askers
from tests.support.acl_entries import acls_of, entry
from tests.support.cluster_images import with_topic
from tests.support.server.group_broker import GROUP, GroupBroker, change_topics, subscribed
from tests.support.server.replicas import lead, settle

ALICE = Requester("User:alice", "10.0.0.7")


def restricted(directory: Path) -> tuple[GroupBroker, Askers]:
    """Return a broker with two topics, `orders` and `orders-secret`."""
    broker = GroupBroker(directory)
    broker.image = with_topic(broker.image, [1], topic="orders-secret", topic_id=TopicId(UUID(int=300)))
    askers = Askers(lambda: broker.image, CurrentAuthorizer(frozenset(), allow_if_no_acl=False))
    broker.coordinators.show_topics(askers.of_groups.describable)
    return broker, askers


def allow(broker: GroupBroker, *entries: AclEntry) -> None:
    change_topics(broker, replace(broker.image, acls=acls_of(entries)))


async def heartbeat(broker: GroupBroker, askers: Askers) -> None:
    askers.of_groups.heard(GROUP, ALICE)
    await broker.join_consumer(subscribed_topic_names=None, subscribed_topic_regex="ord.*")


async def test_a_group_gets_the_topics_that_its_member_may_describe_and_others_with_the_right(tmp_path: Path) -> None:
    broker, askers = restricted(tmp_path)
    async with broker:
        allow(broker, entry("orders", Operation.READ))
        await heartbeat(broker, askers)
        assert await subscribed(broker) == {"orders"}
        allow(broker, entry("orders", Operation.READ), entry("orders-secret", Operation.DESCRIBE))
        assert await subscribed(broker) == {"orders", "orders-secret"}
        allow(broker)
        assert await subscribed(broker) == set()


async def test_the_next_coordinator_keeps_what_was_found_until_it_hears_a_member(tmp_path: Path) -> None:
    broker, askers = restricted(tmp_path)
    async with broker:
        allow(broker, entry("orders", Operation.READ))
        await heartbeat(broker, askers)
        assert await subscribed(broker) == {"orders"}
        later = Askers(lambda: broker.image, CurrentAuthorizer(frozenset(), allow_if_no_acl=False))
        broker.coordinators.show_topics(later.of_groups.describable)
        lead(broker.partition, epoch=2, replicas=(1,))
        await settle()
        allow(broker, entry("orders-secret", Operation.READ))
        assert await subscribed(broker) == {"orders"}
        later.of_groups.heard(GROUP, ALICE)
        await broker.join_consumer(member_epoch=0, subscribed_topic_names=None, subscribed_topic_regex="ord.*")
        assert await subscribed(broker) == {"orders-secret"}
