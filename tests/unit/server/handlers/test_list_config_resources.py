from __future__ import annotations

from kraft.model.configs import ConfigResource, ConfigResourceType
from kraft.server.handlers.list_config_resources import list_config_resources
from tests.support.cluster_images import cluster, with_topic

IMAGE = with_topic(cluster(2, 1), [1])


def test_topics_and_brokers_have_configs_and_nothing_else_yet() -> None:
    assert list_config_resources(IMAGE, ConfigResourceType) == [
        ConfigResource(resource_type=ConfigResourceType.TOPIC, resource_name="orders"),
        ConfigResource(resource_type=ConfigResourceType.BROKER, resource_name="1"),
        ConfigResource(resource_type=ConfigResourceType.BROKER, resource_name="2"),
    ]
