"""What two sides say to each other before the first request of a user: which versions, and who are you.

Both halves are plain code of the same shape: `start` returns the first step, `answered` takes an answer and gives the
next one, a step is a request to ask or the result, and a refusal is raised. Neither waits nor knows a socket.

Versions. We ask ApiVersions first, at our highest version. A node that does not know that version answers error 35
and lists, in the layout of version 0, what it knows; then we ask once more with its highest version, or with 0 when
the list does not say. Every further try is lower than the one before, so there is an end.

Who we are is up to an Authenticator, one object per attempt. The mechanisms live in `ottla.net.sasl`; a node
without one goes from the versions straight to work.
"""

from __future__ import annotations

from typing import Protocol

from ottla.errors import MalformedMessage, UnsupportedVersion, broker_error
from ottla.light_dataclasses import dataclass
from ottla.net.connection import API_VERSIONS, UNSUPPORTED_VERSION, ApiVersionTable
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.schema import Message


@dataclass(frozen=True, slots=True)
class Ask:
    """The authenticator wants this request answered."""

    request: Message
    version: int


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The other side knows who we are, for `session_ms` if it said so."""

    session_ms: float | None = None


class Authenticator(Protocol):
    """One authentication from its first request to its end; a new one is made for every attempt.

    Raises AuthenticationFailed when the other side says no, and never waits.
    """

    def start(self, versions: ApiVersionTable) -> Ask | Authenticated:
        """The first step."""

    def answered(self, response: Message) -> Ask | Authenticated:
        """The next step, after the answer to the last one."""


class VersionNegotiation:
    """Finds out which versions a node serves."""

    def __init__(self, *, software_name: str, software_version: str) -> None:
        self._request = ApiVersionsRequest(client_software_name=software_name, client_software_version=software_version)
        self._asked = API_VERSIONS.versions.max

    def start(self) -> Ask:
        """The first step: our highest version."""
        return Ask(self._request, self._asked)

    def answered(self, response: Message) -> Ask | ApiVersionTable:
        """The table, or a lower version to ask with."""
        if not isinstance(response, ApiVersionsResponse):
            raise MalformedMessage(f"expected the answer to ApiVersions, got {type(response).__name__}")
        if response.error_code == UNSUPPORTED_VERSION:
            self._asked = version_after_refusal(response, self._asked)
            return Ask(self._request, self._asked)
        if response.error_code:
            raise broker_error(response.error_code, "the other side refused to say which versions it serves")
        return ApiVersionTable.from_response(response)


def version_after_refusal(response: ApiVersionsResponse, refused: int) -> int:
    """Which ApiVersions version to ask with after error 35: always lower than the refused one."""
    lowest = API_VERSIONS.versions.min
    if refused <= lowest:
        raise UnsupportedVersion(f"the other side refuses ApiVersions in version {refused}, there is none lower")
    listed = ApiVersionTable.from_response(response)
    return listed.choose(API_VERSIONS, at_most=refused - 1) if listed.offers(API_VERSIONS, refused - 1) else lowest
