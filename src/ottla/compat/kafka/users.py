"""kafka.admin's values for SCRAM passwords. A password is in no repr."""

from __future__ import annotations

from ottla.client.admin import credentials
from ottla.compat.kafka.errors import IllegalArgumentError

ScramMechanism = credentials.ScramMechanism


def _mechanism(value: credentials.ScramMechanism | int | str) -> credentials.ScramMechanism:
    if isinstance(value, str):
        return credentials.ScramMechanism[value.upper().replace("-", "_")]
    return credentials.ScramMechanism(value)


class UserScramCredentialDeletion:
    """A password is taken away."""

    def __init__(self, user: str, mechanism: credentials.ScramMechanism | int | str) -> None:
        self.user = user
        self.mechanism = _mechanism(mechanism)

    @property
    def ours(self) -> credentials.ScramDeletion:
        return credentials.ScramDeletion(self.user, self.mechanism)

    def __repr__(self) -> str:
        return f"UserScramCredentialDeletion({self.user}, {self.mechanism.name})"


class UserScramCredentialUpsertion:
    """A new password."""

    DEFAULT_ITERATIONS = 4096

    def __init__(
        self,
        user: str,
        mechanism: credentials.ScramMechanism | int | str,
        password: str | bytes,
        iterations: int | None = None,
        salt: bytes | None = None,
    ) -> None:
        self.user = user
        self.mechanism = _mechanism(mechanism)
        if self.mechanism is ScramMechanism.UNKNOWN:
            raise IllegalArgumentError("SCRAM mechanism must not be UNKNOWN")
        self.iterations = self.DEFAULT_ITERATIONS if iterations is None else iterations
        self.salt = salt
        self._password = password

    @property
    def ours(self) -> credentials.ScramUpsertion:
        return credentials.ScramUpsertion(self.user, self._password, self.mechanism, self.iterations, self.salt)

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion({self.user}, {self.mechanism.name}, iterations={self.iterations})"
