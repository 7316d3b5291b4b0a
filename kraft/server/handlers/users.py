"""AlterUserScramCredentials, which the active controller decides, and refused DescribeUserScramCredentials."""

from __future__ import annotations

from kraft.metadata.image import MetadataImage
from kraft.metadata.user_decisions import UNKNOWN_USERS_KEY_BYTES, alter_user_scram_credentials, refused_user
from kraft.model.errors import Refusal
from kraft.runtime.entropy import Entropy
from kraft.server.handlers.decisions import Decisions
from kraft.wire.schema.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kraft.wire.schema.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


async def alter(
    decisions: Decisions, entropy: Entropy, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """The controller's side. Raises Refusal NOT_CONTROLLER while this node is not the active controller."""
    key = entropy.bytes(UNKNOWN_USERS_KEY_BYTES)
    return await decisions.submit(lambda image: alter_user_scram_credentials(image, request, key))


def is_applied(
    image: MetadataImage, request: AlterUserScramCredentialsRequest, _: AlterUserScramCredentialsResponse
) -> bool:
    """Return whether deciding the same request on this image changes nothing."""
    return not alter_user_scram_credentials(image, request, b"").records


def refused(request: AlterUserScramCredentialsRequest, refusal: Refusal) -> AlterUserScramCredentialsResponse:
    named = [*(each.name for each in request.deletions), *(each.name for each in request.upsertions)]
    results = tuple(refused_user(user, refusal) for user in dict.fromkeys(named))
    return AlterUserScramCredentialsResponse(results=results)


def description_refused(
    request: DescribeUserScramCredentialsRequest, refusal: Refusal
) -> DescribeUserScramCredentialsResponse:
    """Return the refusal for each user that is named, too, as Kafka does."""
    code, message = refusal.error_code, refusal.message
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=message,
        results=tuple(
            DescribeUserScramCredentialsResult(
                user=each.name, error_code=code, error_message=message, credential_infos=()
            )
            for each in request.users or ()
        ),
    )
