"""Guards of the APIs for configs: those of brokers, their loggers and clients' metrics belong to the cluster."""

from __future__ import annotations

from typing import Any, Final

from kraft.model.access import CLUSTER_NAME, Operation, ResourceType
from kraft.model.configs import ConfigResourceType
from kraft.model.errors import Refusal
from kraft.server.access.asker import Asker
from kraft.server.access.guard import ASKED_AT_ONCE, Guard, Proceed, asked
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import replace

_OWN: Final = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.GROUP: ResourceType.GROUP,
}
"""Types of resources with configs that have ACLs of their own."""


def protected(resource: Any) -> tuple[ResourceType, str]:
    """Return what protects the configs of a resource. An unknown type is refused by the handler, or by this."""
    own = _OWN.get(ConfigResourceType(resource.resource_type))
    return (ResourceType.CLUSTER, CLUSTER_NAME) if own is None else (own, resource.resource_name)


def configs_guard(operation: Operation, refused: Any, answers: str) -> Guard:
    """`operation` on each resource. `refused` returns the response to a request that is refused with all of them."""

    async def guard(asker: Asker, request: Any, proceed: Proceed) -> Any:
        allowed, not_allowed = await asked(
            request.resources, lambda resource: asker.may(operation, *protected(resource))
        )
        if not not_allowed:
            return await proceed(request)
        response = await proceed(replace(request, resources=allowed))
        turns, results = Turns(ASKED_AT_ONCE), []
        for resource in not_allowed:
            refusal: Refusal = asker.refusal(operation, *protected(resource))
            results += getattr(refused(replace(request, resources=(resource,)), refusal), answers)
            await turns.done()
        return replace(response, **{answers: (*getattr(response, answers), *results)})

    return guard
