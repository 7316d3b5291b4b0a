"""The requests of a connection whose client has to log in: until then only those that this takes are answered.

What comes before login is decoded here, and only the messages of these few APIs: nothing of a stranger's reaches the
handlers. A client that is logged in sends a handshake again to log in again (KIP-368).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Final, NoReturn

from kraft.metadata.users import Users
from kraft.model.callbacks import Callback
from kraft.model.clients import ClientWords
from kraft.model.errors import ErrorCode
from kraft.model.refused_for import RefusedFor
from kraft.rpc.frame_exchange import HELLO_KEY
from kraft.sasl.login import TOKEN_MESSAGE_BYTES_MAX, LoggedIn, LoginFailed, LoginRules
from kraft.server.identity.authenticator import Authenticator
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.requests import Api, KafkaRequests, api_name
from kraft.server.kafka_listener.response_writer import ResponseBytes
from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.api_versions import is_served
from kraft.wire.codec import decode
from kraft.wire.declaration import Buffer, Message
from kraft.wire.errors import ProtocolError
from kraft.wire.frame import SIZE_BYTES, RequestHeader, decode_request_header, encode_response
from kraft.wire.schema.api_versions import ApiVersionsResponse
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft.wire.schema.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

ELEMENTS_MAX: Final = 64
"""Tagged fields and elements of a request before login. Known clients send two."""

REQUESTS_MAX: Final = 16
"""Requests before login. A client sends six at most, if it asks for the versions twice."""

_RAW_HANDSHAKE: Final = 0
"""Version of the handshake after which tokens come without Kafka's headers."""

_HANDSHAKE_KEY: Final = int(ApiKey.SASL_HANDSHAKE)
_LOGIN_KEYS: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class LoginRequests:
    """In front of the requests of one connection."""

    def __init__(
        self,
        authenticator: Authenticator,
        rules: LoginRules,
        requests: KafkaRequests,
        apis: Mapping[ApiKey, Api],
        address: str,
    ) -> None:
        """`apis` answer ApiVersions. `address` is the client's, without the port."""
        self._authenticator = authenticator
        self._login = authenticator.begin(rules)
        self._requests = requests
        self._apis = apis
        self._address = address
        self._are_tokens_raw = False
        self._users: Users | None = None
        """Those among whom the client's was last, so that it is not looked up again until they change."""

        self._stranger_requests = 0

    @property
    def is_trusted(self) -> bool:
        return self._login.session is not None

    def client(self) -> ClientWords:
        return self._requests.client()

    def objection(self) -> str | None:
        session, users = self._login.session, self._authenticator.users()
        if session is None or users is self._users:
            return None
        self._users = users
        return self._authenticator.objection(session)

    @property
    def is_muted(self) -> bool:
        return self._requests.is_muted

    @property
    def muted_ms(self) -> int:
        return self._requests.muted_ms

    def when_ready(self, go_on: Callback) -> None:
        self._requests.when_ready(go_on)

    def close(self) -> None:
        self._requests.close()

    def is_pipelined(self, frame: memoryview) -> bool:
        return self._login.is_logged_in and self._requests.is_pipelined(frame)

    def begin(self, frame: memoryview) -> Awaitable[ResponseBytes] | ResponseBytes:
        login = self._login
        if login.session is None or not login.is_logged_in:
            return self._begin_login(frame)
        if frame[1] == _HANDSHAKE_KEY and not frame[0] and login.may_begin_again(self._authenticator.monotonic_ms()):
            return self._begin_login(frame)
        session = login.session
        if session.ends_at_ms is not None and session.is_over(self._authenticator.monotonic_ms()):
            reason = f"the session of {session.principal} is over, and it did not log in again"
            raise _refusing(reason)
        return self._requests.begin(frame)

    def _begin_login(self, frame: memoryview) -> Awaitable[ResponseBytes] | ResponseBytes:
        self._count_stranger()
        if self._login.is_exchanging and self._are_tokens_raw:
            return self._answer_raw(_message(frame))
        try:
            header, position = decode_request_header(frame, ELEMENTS_MAX)
            if header.api_key == HELLO_KEY and self._login.session is None:
                return self._requests.begin(frame)
            if header.api_key not in _LOGIN_KEYS:
                raise self._without_login(header.api_key)
            if not is_served(header.api_key, header.api_version):
                return self._requests.refuse_version(header)
            request = decode(request_type(header.api_key), header.api_version, frame, position, ELEMENTS_MAX)
        except ProtocolError as error:
            raise CloseConnection(str(error)) from None
        match request:
            case SaslHandshakeRequest():
                return self._shake_hands(request.mechanism, header)
            case SaslAuthenticateRequest():
                return self._authenticate(_message(request.auth_bytes), header)
            case _:
                return self._tell_versions(request, header, len(frame))

    def _without_login(self, api_key: int) -> CloseConnection:
        reason = (
            f"{api_name(api_key)} before login: clients of this listener need the settings security.protocol and "
            "sasl.mechanism"
        )
        if self._login.session is None:
            self._authenticator.note(LoginFailed(ErrorCode.ILLEGAL_SASL_STATE, reason, reason), self._address)
        return _refusing(reason)

    def _count_stranger(self) -> None:
        """End a connection that goes on without a login: what it is told is work, and may fill memory unread."""
        if self._login.session is not None:
            return
        self._stranger_requests += 1
        if self._stranger_requests > REQUESTS_MAX:
            raise _refusing(f"more than {REQUESTS_MAX} requests before login")

    async def _tell_versions(self, request: Message, header: RequestHeader, frame_bytes: int) -> ResponseBytes:
        response = self._apis[ApiKey.API_VERSIONS](request, self._requests.context(header, frame_bytes))
        if isinstance(response, Awaitable):
            response = await response
        assert isinstance(response, ApiVersionsResponse), "the API answers with its response"
        if response.error_code == ErrorCode.NONE:
            try:
                self._login.versions_told()
            except LoginFailed as failed:
                refused = ApiVersionsResponse(error_code=failed.error_code, api_keys=())
                await self._refuse(failed, _framed(refused, header))
        return _framed(response, header)

    async def _shake_hands(self, mechanism: str, header: RequestHeader) -> ResponseBytes:
        try:
            self._login.handshake(mechanism, self._authenticator.monotonic_ms())
        except LoginFailed as failed:
            await self._refuse(failed, self._handshake_response(failed.error_code, header))
        self._are_tokens_raw = header.api_version == _RAW_HANDSHAKE
        return self._handshake_response(ErrorCode.NONE, header)

    def _handshake_response(self, error_code: ErrorCode, header: RequestHeader) -> ResponseBytes:
        mechanisms = tuple(each.value for each in self._login.mechanisms)
        return _framed(SaslHandshakeResponse(error_code=error_code, mechanisms=mechanisms), header)

    async def _authenticate(self, message: bytes, header: RequestHeader) -> ResponseBytes:
        try:
            answer = await self._authenticator.answer(self._login, message, self._address)
        except LoginFailed as failed:
            if failed.is_passing:
                # Clients try again after a connection that ended without an answer.
                raise _refusing(failed.reason) from None
            refused = SaslAuthenticateResponse(
                error_code=failed.error_code, error_message=failed.told, auth_bytes=b"", session_lifetime_ms=0
            )
            raise _refusing(failed.reason, _framed(refused, header)) from None
        lifetime_ms = 0
        if isinstance(answer, LoggedIn):
            self._requests.principal = answer.session.principal
            lifetime_ms = answer.session.lifetime_ms
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.NONE, error_message=None, auth_bytes=answer.message, session_lifetime_ms=lifetime_ms
        )
        return _framed(response, header)

    async def _answer_raw(self, message: bytes) -> ResponseBytes:
        try:
            answer = await self._authenticator.answer(self._login, message, self._address)
        except LoginFailed as failed:
            # A raw answer has no place for an error.
            raise _refusing(failed.reason) from None
        if isinstance(answer, LoggedIn):
            self._requests.principal = answer.session.principal
        return [len(answer.message).to_bytes(SIZE_BYTES, "big") + answer.message]

    async def _refuse(self, failed: LoginFailed, response: ResponseBytes) -> NoReturn:
        await self._authenticator.delay_failure(failed, self._address)
        raise _refusing(failed.reason, response) from None


def _refusing(reason: str, response: ResponseBytes | None = None) -> CloseConnection:
    return CloseConnection(reason, response, RefusedFor.LOGIN)


def _message(content: Buffer) -> bytes:
    """Return a message of a mechanism; of one that is too long only so much that the login refuses it."""
    return bytes(memoryview(content)[: TOKEN_MESSAGE_BYTES_MAX + 1])


def _framed(response: Message, header: RequestHeader) -> ResponseBytes:
    return encode_response(response, header.api_version, header.correlation_id)
