"""SCRAM credentials: kept, told without secrets."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from ottla.cluster.changes import apply_all
from ottla.cluster.credentials import alter_user_scram_credentials, describe_user_scram_credentials
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ScramKey
from ottla.errors import ERRORS
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

SALTED = hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt", 4096)


def upsert(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=SALTED
    )


def delete(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def code(answer: Any) -> str:
    found = ERRORS[answer.error_code]
    return "NONE" if found is None else found.name


def alter(image: ClusterImage, *each: ScramCredentialDeletion | ScramCredentialUpsertion) -> tuple[Any, dict[str, str]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in each if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in each if isinstance(one, ScramCredentialUpsertion)],
    )
    plan = alter_user_scram_credentials(image, request)
    return plan, {answer.user: code(answer) for answer in plan.answers}


def test_a_password_can_be_checked_with_what_is_kept_and_not_be_read_from_it() -> None:
    plan, codes = alter(ClusterImage("c"), upsert("alice"))
    assert codes == {"alice": "NONE"}
    kept = apply_all(ClusterImage("c"), plan.changes).scram_credentials[ScramKey("alice", 1)]
    client_key = hmac.digest(SALTED, b"Client Key", "sha256")
    assert hashlib.sha256(client_key).digest() == kept.stored_key
    assert kept.server_key == hmac.digest(SALTED, b"Server Key", "sha256")
    for secret in (SALTED, kept.stored_key, kept.server_key, kept.salt):
        assert repr(secret) not in repr(plan)
        assert repr(secret)[2:-1] not in repr(plan)


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        (upsert("bob", iterations=4095), "UNACCEPTABLE_CREDENTIAL"),
        (upsert("bob", iterations=16385), "UNACCEPTABLE_CREDENTIAL"),
        (upsert("bob", mechanism=3), "UNSUPPORTED_SASL_MECHANISM"),
        (delete("bob", mechanism=0), "UNSUPPORTED_SASL_MECHANISM"),
        (delete("bob"), "RESOURCE_NOT_FOUND"),
        (upsert(""), "UNACCEPTABLE_CREDENTIAL"),
        (delete(""), "UNACCEPTABLE_CREDENTIAL"),
    ],
)
def test_what_is_no_credential_is_refused_and_the_others_are_kept(each: Any, expected: str) -> None:
    plan, codes = alter(ClusterImage("c"), each, upsert("alice", 2, 16384))
    assert codes == {each.name: expected, "alice": "NONE"}
    assert len(plan.changes) == 1


def test_a_user_altered_twice_is_not_altered() -> None:
    image = apply_all(ClusterImage("c"), alter(ClusterImage("c"), upsert("alice"))[0].changes)
    for pair in ((upsert("bob"), upsert("bob", 2)), (delete("alice"), upsert("alice", 2)), (delete("alice"),) * 2):
        plan, codes = alter(image, *pair)
        assert (list(codes.values()), plan.changes) == (["DUPLICATE_RESOURCE"], ())


def describe(image: ClusterImage, *users: str) -> list[tuple[str, str, list[tuple[int, int]]]]:
    names = [UserName(name=user) for user in users] or None
    results = describe_user_scram_credentials(image, DescribeUserScramCredentialsRequest(users=names))
    return [(r.user, code(r), [(i.mechanism, i.iterations) for i in r.credential_infos]) for r in results]


def test_users_are_told_by_mechanism_and_iterations() -> None:
    image = ClusterImage("c")
    for each in (upsert("bob", 2, 8192), upsert("alice"), upsert("alice", 2)):
        image = apply_all(image, alter(image, each)[0].changes)
    alice, bob = ("alice", "NONE", [(1, 4096), (2, 4096)]), ("bob", "NONE", [(2, 8192)])
    assert describe(image) == [alice, bob]
    assert describe(image, "bob", "carol") == [bob, ("carol", "RESOURCE_NOT_FOUND", [])]
    assert describe(image, "bob", "bob") == [("bob", "DUPLICATE_RESOURCE", [])]
    gone = apply_all(image, alter(image, delete("bob", 2))[0].changes)
    assert describe(gone) == [alice]
