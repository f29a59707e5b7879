"""SCRAM credentials of users, and delegation tokens.

A password never leaves this process: what is sent is its salted hash, made here. Neither is shown by repr.
"""

from __future__ import annotations

import base64
import enum
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ottla.client.admin.configs import known
from ottla.client.admin.plans import Plan, Question, Route, error_of, raise_error_of
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.net.sasl.scram import SALT_BYTES
from ottla.protocol.messages import (
    alter_user_scram_credentials,
    create_delegation_token,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
)
from ottla.protocol.schema import Message

DEFAULT_ITERATIONS: Final = 4096
TOKEN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


class ScramMechanism(enum.IntEnum):
    """Which hash."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        return "sha512" if self is ScramMechanism.SCRAM_SHA_512 else "sha256"


class ScramCredentialInfo(NamedTuple):
    """What can be told of a credential."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """Give a user a password."""

    user: str
    password: str | bytes = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """Take a user's password away."""

    user: str
    mechanism: ScramMechanism


class DescribeAllScramCredentials(Question[dict[str, tuple[ScramCredentialInfo, ...]]]):
    """The credentials of every user who has some."""

    def ask(self, timeout_ms: int) -> Message:
        return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)

    def answer(self, response: Any) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        raise_error_of(response)
        for each in response.results:
            raise_error_of(each)
        return {each.user: _infos(each) for each in response.results}


class DescribeScramCredentials(Plan[str, tuple[ScramCredentialInfo, ...]]):
    """The keys are the users; one who has none is ResourceNotFound."""

    def target(self, key: str) -> None:
        return None

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        users = [describe_user_scram_credentials.UserName(name=name) for name in keys]
        return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=users)

    def results(
        self, keys: Sequence[str], response: Any
    ) -> Iterator[tuple[str, tuple[ScramCredentialInfo, ...] | OttlaError]]:
        if (error := error_of(response)) is not None:
            yield from ((key, error) for key in keys)
            return
        for each in response.results:
            yield each.user, error_of(each) or _infos(each)


def _infos(answer: Any) -> tuple[ScramCredentialInfo, ...]:
    return tuple(
        ScramCredentialInfo(known(ScramMechanism, info.mechanism), info.iterations) for info in answer.credential_infos
    )


@dataclass(frozen=True)
class AlterScramCredentials(Plan[str, None]):
    """The keys are the users."""

    route = Route.CONTROLLER

    changes: Sequence[ScramUpsertion | ScramDeletion]
    random_bytes: Callable[[int], bytes]

    def target(self, key: str) -> None:
        return None

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        wanted = [each for each in self.changes if each.user in keys]
        deletions = [
            alter_user_scram_credentials.ScramCredentialDeletion(name=each.user, mechanism=int(each.mechanism))
            for each in wanted
            if isinstance(each, ScramDeletion)
        ]
        upsertions = [self._upsertion(each) for each in wanted if isinstance(each, ScramUpsertion)]
        return alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)

    def _upsertion(self, each: ScramUpsertion) -> alter_user_scram_credentials.ScramCredentialUpsertion:
        salt = each.salt if each.salt is not None else self.random_bytes(SALT_BYTES)
        password = each.password.encode() if isinstance(each.password, str) else each.password
        return alter_user_scram_credentials.ScramCredentialUpsertion(
            name=each.user,
            mechanism=int(each.mechanism),
            iterations=each.iterations,
            salt=salt,
            salted_password=hashlib.pbkdf2_hmac(each.mechanism.hash_name, password, salt, each.iterations),
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, OttlaError | None]]:
        for each in response.results:
            yield each.user, error_of(each)


# --- delegation tokens -----------------------------------------------------------------------------------------------


class Principal(NamedTuple):
    """Who somebody is."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token; its hmac is a secret and works as a password."""

    token_id: str
    owner: Principal
    requester: Principal
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    hmac: bytes = field(repr=False)
    renewers: tuple[Principal, ...] = ()

    def login_settings(self, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512) -> dict[str, str]:
        """What a client is told to log in with this token, as its owner; the password is in it."""
        password = base64.b64encode(self.hmac).decode()
        return {
            "sasl.mechanism": mechanism.name.replace("_", "-"),
            "sasl.jaas.config": f'{TOKEN_MODULE} required tokenauth="true" username="{self.token_id}"'
            f' password="{password}";',
        }


@dataclass(frozen=True)
class CreateToken(Question[DelegationToken]):
    renewers: Sequence[Principal] = ()
    owner: Principal | None = None
    max_lifetime_ms: int = -1

    def ask(self, timeout_ms: int) -> Message:
        return create_delegation_token.CreateDelegationTokenRequest(
            owner_principal_type="" if self.owner is None else self.owner.type,
            owner_principal_name="" if self.owner is None else self.owner.name,
            renewers=[
                create_delegation_token.CreatableRenewers(principal_type=each.type, principal_name=each.name)
                for each in self.renewers
            ],
            max_lifetime_ms=self.max_lifetime_ms,
        )

    def answer(self, response: Any) -> DelegationToken:
        raise_error_of(response)
        return DelegationToken(
            token_id=response.token_id,
            owner=Principal(response.principal_type, response.principal_name),
            requester=Principal(response.token_requester_principal_type, response.token_requester_principal_name),
            issue_timestamp_ms=response.issue_timestamp_ms,
            expiry_timestamp_ms=response.expiry_timestamp_ms,
            max_timestamp_ms=response.max_timestamp_ms,
            hmac=bytes(response.hmac),
            renewers=tuple(self.renewers),
        )


@dataclass(frozen=True)
class RenewToken(Question[int]):
    """Returns the new time of expiry in milliseconds."""

    hmac: bytes = field(repr=False)
    period_ms: int = -1

    def ask(self, timeout_ms: int) -> Message:
        return renew_delegation_token.RenewDelegationTokenRequest(hmac=self.hmac, renew_period_ms=self.period_ms)

    def answer(self, response: Any) -> int:
        raise_error_of(response)
        expiry: int = response.expiry_timestamp_ms
        return expiry


@dataclass(frozen=True)
class ExpireToken(Question[int]):
    """A period below zero ends the token at once. Returns the time of expiry in milliseconds."""

    hmac: bytes = field(repr=False)
    period_ms: int = -1

    def ask(self, timeout_ms: int) -> Message:
        return expire_delegation_token.ExpireDelegationTokenRequest(
            hmac=self.hmac, expiry_time_period_ms=self.period_ms
        )

    def answer(self, response: Any) -> int:
        raise_error_of(response)
        expiry: int = response.expiry_timestamp_ms
        return expiry


@dataclass(frozen=True)
class DescribeTokens(Question[list[DelegationToken]]):
    owners: Sequence[Principal] | None = None

    def ask(self, timeout_ms: int) -> Message:
        owners = None
        if self.owners is not None:
            owners = [
                describe_delegation_token.DescribeDelegationTokenOwner(
                    principal_type=each.type, principal_name=each.name
                )
                for each in self.owners
            ]
        return describe_delegation_token.DescribeDelegationTokenRequest(owners=owners)

    def answer(self, response: Any) -> list[DelegationToken]:
        raise_error_of(response)
        return [_token(each) for each in response.tokens]


def _token(each: Any) -> DelegationToken:
    return DelegationToken(
        token_id=each.token_id,
        owner=Principal(each.principal_type, each.principal_name),
        requester=Principal(each.token_requester_principal_type, each.token_requester_principal_name),
        issue_timestamp_ms=each.issue_timestamp,
        expiry_timestamp_ms=each.expiry_timestamp,
        max_timestamp_ms=each.max_timestamp,
        hmac=bytes(each.hmac),
        renewers=tuple(Principal(renewer.principal_type, renewer.principal_name) for renewer in each.renewers),
    )
