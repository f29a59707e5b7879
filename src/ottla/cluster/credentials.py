"""Plans for SCRAM credentials: AlterUserScramCredentials and DescribeUserScramCredentials.

1. What comes is the salted password; what is kept are the two keys made of it (RFC 5802), so that a stolen metadata log
   lets nobody in. Neither is printed or told.
2. A user is changed once per request; twice is DUPLICATE_RESOURCE and nothing of it is done.
3. They are kept and told; who logs in with them is decided elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from typing import Final, TypeAlias

from ottla.cluster.changes import Change, SetScramCredential
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ScramCredential, ScramKey
from ottla.cluster.plan import FINE, ErrorFields, Plan, refusal
from ottla.errors import (
    BrokerError,
    DuplicateResource,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResult,
)

ITERATIONS_AT_LEAST: Final = 4096
ITERATIONS_AT_MOST: Final = 16384


Alteration: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion


class Mechanism(NamedTuple):
    """A SCRAM mechanism; `number` is the one on the wire."""

    number: int
    name: str
    hash_name: str


MECHANISMS: Final = {
    1: Mechanism(1, "SCRAM-SHA-256", "sha256"),
    2: Mechanism(2, "SCRAM-SHA-512", "sha512"),
}


def alter_user_scram_credentials(
    image: ClusterImage, request: AlterUserScramCredentialsRequest
) -> Plan[AlterUserScramCredentialsResult]:
    """Set and remove credentials; one answer per user."""
    altered: list[Alteration] = [*request.deletions, *request.upsertions]
    times = Counter(each.name for each in altered)
    changes: list[Change] = []
    outcomes: dict[str, ErrorFields] = {}
    for each in altered:
        try:
            if times[each.name] > 1:
                raise DuplicateResource("a user credential cannot be altered twice in the same request")
            changes.append(_altered(image, each))
            outcomes[each.name] = FINE
        except BrokerError as error:
            outcomes[each.name] = refusal(error)
    answers = [AlterUserScramCredentialsResult(user=user, **outcome) for user, outcome in outcomes.items()]
    return Plan(tuple(changes), answers)


def _altered(image: ClusterImage, each: Alteration) -> Change:
    if not each.name:
        raise UnacceptableCredential("the user name must not be empty")
    if each.mechanism not in MECHANISMS:
        raise UnsupportedSaslMechanism(f"unknown SCRAM mechanism {each.mechanism}")
    key = ScramKey(each.name, each.mechanism)
    if isinstance(each, ScramCredentialUpsertion):
        return SetScramCredential(key, _credential(each))
    if key not in image.scram_credentials:
        raise ResourceNotFound("attempt to delete a user credential that does not exist")
    return SetScramCredential(key, None)


def _credential(upsertion: ScramCredentialUpsertion) -> ScramCredential:
    if upsertion.iterations < ITERATIONS_AT_LEAST:
        raise UnacceptableCredential(f"too few iterations; at least {ITERATIONS_AT_LEAST} are needed")
    if upsertion.iterations > ITERATIONS_AT_MOST:
        raise UnacceptableCredential(f"too many iterations; at most {ITERATIONS_AT_MOST} are taken")
    hash_name = MECHANISMS[upsertion.mechanism].hash_name
    salted = bytes(upsertion.salted_password)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    return ScramCredential(
        iterations=upsertion.iterations,
        salt=bytes(upsertion.salt),
        stored_key=hashlib.new(hash_name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", hash_name),
    )


def describe_user_scram_credentials(
    image: ClusterImage, request: DescribeUserScramCredentialsRequest
) -> list[DescribeUserScramCredentialsResult]:
    """Which mechanisms users have, and with how many iterations; no names asks for all users."""
    times = Counter(user.name for user in request.users or ())
    wanted = list(times) or sorted({key.user for key in image.scram_credentials})
    return [_described(image, user, twice=times[user] > 1) for user in wanted]


def _described(image: ClusterImage, user: str, *, twice: bool) -> DescribeUserScramCredentialsResult:
    infos = [
        CredentialInfo(mechanism=mechanism, iterations=kept.iterations)
        for mechanism in MECHANISMS
        if (kept := image.scram_credentials.get(ScramKey(user, mechanism))) is not None
    ]
    outcome: ErrorFields = FINE
    if twice:
        error = DuplicateResource(f"cannot describe SCRAM credentials for the same user twice in a request: {user}")
        outcome, infos = refusal(error), []
    elif not infos:
        outcome = refusal(ResourceNotFound(f"attempt to describe a user credential that does not exist: {user}"))
    return DescribeUserScramCredentialsResult(user=user, **outcome, credential_infos=infos)
