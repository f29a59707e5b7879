"""confluent_kafka.admin's values for SCRAM passwords. A password is in no repr."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from ottla.client.admin import credentials


class ScramMechanism(enum.Enum):
    """Which hash."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    def __lt__(self, other: object) -> bool:
        return bool(self.value < other.value) if isinstance(other, ScramMechanism) else NotImplemented


class ScramCredentialInfo:
    """What is known of a password: its mechanism and how often it was hashed."""

    def __init__(self, mechanism: ScramMechanism, iterations: int) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class UserScramCredentialsDescription:
    """The passwords of a user."""

    def __init__(self, user: str, scram_credential_infos: Sequence[ScramCredentialInfo]) -> None:
        self.user = user
        self.scram_credential_infos = list(scram_credential_infos)


class UserScramCredentialAlteration:
    """What is to change for a user."""

    def __init__(self, user: str) -> None:
        self.user = user

    @property
    def ours(self) -> credentials.ScramUpsertion | credentials.ScramDeletion:
        raise TypeError("use UserScramCredentialUpsertion or UserScramCredentialDeletion")


class UserScramCredentialUpsertion(UserScramCredentialAlteration):
    """A new password."""

    def __init__(
        self, user: str, scram_credential_info: ScramCredentialInfo, password: bytes, salt: bytes | None = None
    ) -> None:
        super().__init__(user)
        self.scram_credential_info = scram_credential_info
        self.password = password
        self.salt = salt

    @property
    def ours(self) -> credentials.ScramUpsertion:
        info = self.scram_credential_info
        mechanism = credentials.ScramMechanism(info.mechanism.value)
        return credentials.ScramUpsertion(self.user, self.password, mechanism, info.iterations, self.salt)


class UserScramCredentialDeletion(UserScramCredentialAlteration):
    """A password is taken away."""

    def __init__(self, user: str, mechanism: ScramMechanism) -> None:
        super().__init__(user)
        self.mechanism = mechanism

    @property
    def ours(self) -> credentials.ScramDeletion:
        return credentials.ScramDeletion(self.user, credentials.ScramMechanism(self.mechanism.value))


def descriptions(
    found: Mapping[str, Sequence[credentials.ScramCredentialInfo]],
) -> dict[str, UserScramCredentialsDescription]:
    """What is known of users' passwords, as theirs."""
    return {
        user: UserScramCredentialsDescription(
            user, [ScramCredentialInfo(ScramMechanism(int(each.mechanism)), each.iterations) for each in infos]
        )
        for user, infos in found.items()
    }
