"""A delegation token as text: the JSON that Apache Kafka 3.9 keeps of one in ZooKeeper, in every store of ours.

    {"issueTimestamp":1700000000000,"renewers":["User%3Abob"],"tokenRequester":"User%3Acarol","tokenId":"dG9rZW4...",
     "owner":"User%3Aalice","expiryTimestamp":1700086400000,"maxTimestamp":1700604800000,"version":3}

1. It is written as version 3, with its members in Kafka's order. Versions 1 and 2 are read too: they do not say who
   asked for the token, which is then its owner.
2. Principals are percent-encoded, as all names that Kafka keeps there.
3. There is no secret in it: the HMAC is made of the id and the secret key of the brokers, which nobody keeps.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ottla.cluster.model import DelegationToken
from ottla.errors import OttlaError

VERSION: Final = 3
REQUESTER_SINCE: Final = 3


class DamagedToken(OttlaError):
    """What is kept of a delegation token makes no sense, so nobody can use it. Delete it and create another one."""


def token_text(token: DelegationToken) -> str:
    """The text that is kept of a token."""
    from ottla.cluster.store.zookeeper.paths import encoded  # a broker loads this file at its start; few have tokens

    content = {
        "issueTimestamp": token.issue_ms,
        "renewers": [encoded(each) for each in token.renewers],
        "tokenRequester": encoded(token.requester),
        "tokenId": token.id,
        "owner": encoded(token.owner),
        "expiryTimestamp": token.expiry_ms,
        "maxTimestamp": token.max_ms,
        "version": VERSION,
    }
    return json.dumps(content, separators=(",", ":"))


def read_token(token_id: str, text: str) -> DelegationToken:
    """The token that a text is kept of; `token_id` is the name that it is kept under."""
    try:
        return _token(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise DamagedToken(f"delegation token {token_id!r} makes no sense: {problem!r}") from problem


def _token(content: dict[str, Any]) -> DelegationToken:
    version = int(content["version"])
    if not 1 <= version <= VERSION:
        raise ValueError(f"version {version} is not known")
    owner = _principal(content["owner"])
    return DelegationToken(
        id=str(content["tokenId"]),
        owner=owner,
        requester=_principal(content["tokenRequester"]) if version >= REQUESTER_SINCE else owner,
        renewers=tuple(_principal(each) for each in content["renewers"]),
        issue_ms=int(content["issueTimestamp"]),
        expiry_ms=int(content["expiryTimestamp"]),
        max_ms=int(content["maxTimestamp"]),
    )


def _principal(text: str) -> str:
    from ottla.cluster.store.zookeeper.paths import decoded

    principal = decoded(text)
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"{principal!r} is not a principal")
    return principal
