"""Users that a broker must have before it serves anybody: who would create the first one otherwise?

1. What is kept is what AlterUserScramCredentials would keep: salt, iterations and two keys, never the password.
2. A user who is there keeps his password, unless a new one is wanted (`replace`).
3. This decides; the server commits the changes before a listener opens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

from ottla.cluster.changes import Change
from ottla.cluster.credentials import ITERATIONS_AT_MOST, MECHANISMS, Mechanism, alter_user_scram_credentials
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ScramKey
from ottla.light_dataclasses import dataclass, field
from ottla.net.sasl.scram import SALT_BYTES
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)

SCRAM_SHA_512: Final = MECHANISMS[2]


@dataclass(frozen=True)
class FirstUser:
    """A user for SCRAM-SHA-512; `replace` gives one who is there this password."""

    name: str
    password: str = field(repr=False)
    replace: bool = False


def changes_for(
    image: ClusterImage, users: Iterable[FirstUser], random_bytes: Callable[[int], bytes]
) -> tuple[Change, ...]:
    """What must be committed so that these users can log in."""
    missing = [
        each
        for each in users
        if each.replace or ScramKey(each.name, SCRAM_SHA_512.number) not in image.scram_credentials
    ]
    upsertions = [_upsertion(each, SCRAM_SHA_512, random_bytes(SALT_BYTES)) for each in missing]
    return alter_user_scram_credentials(
        image, AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions)
    ).changes


def _upsertion(user: FirstUser, mechanism: Mechanism, salt: bytes) -> ScramCredentialUpsertion:
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, user.password.encode(), salt, ITERATIONS_AT_MOST)
    return ScramCredentialUpsertion(
        name=user.name,
        mechanism=mechanism.number,
        iterations=ITERATIONS_AT_MOST,
        salt=salt,
        salted_password=salted,
    )
