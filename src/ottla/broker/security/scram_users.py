"""The SCRAM credentials of the cluster, as a login asks for them.

1. Users are in the image (AlterUserScramCredentials), tokens are asked from whoever keeps them.
2. Users that do not exist get decoys (net/sasl/scram_server.py). Their secret must be the same on all brokers and last
   longer than a process: otherwise one could ask twice and see a salt change. It is made of what all brokers have and
   nobody else: the server key of the first user. It looks like the credentials that most users have.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.cluster.credentials import MECHANISMS
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ScramCredential, ScramKey
from ottla.cluster.shared_map import SharedMap
from ottla.net.sasl.scram import ScramKeys
from ottla.net.sasl.scram_server import Credential, Decoys, Shape

_NUMBERS: Final = {mechanism.name: mechanism.number for mechanism in MECHANISMS.values()}

_NOBODY: Final = ScramCredential(0, b"", b"", b"")

TokenCredentialOf: TypeAlias = Callable[[str, str], Credential | None]
"""(token id, mechanism) to what is kept of the token."""


def no_tokens(token_id: str, mechanism: str) -> Credential | None:
    """Where delegation tokens are switched off."""
    return None


class ScramUsers:
    """See the module. `image` gives the newest one."""

    def __init__(self, image: Callable[[], ClusterImage], token_credential_of: TokenCredentialOf = no_tokens) -> None:
        self._image = image
        self._token_credential_of = token_credential_of
        self._decoys: dict[str, Decoys] = {}
        self._decoys_of: SharedMap[ScramKey, ScramCredential] | None = None

    def credential_of(self, user: str, mechanism: str, is_token: bool) -> Credential | None:
        """What is kept of a user, or of a token with that id."""
        if is_token:
            return self._token_credential_of(user, mechanism)
        known = self._image().scram_credentials.get(ScramKey(user, _NUMBERS[mechanism]))
        kept = _NOBODY if known is None else known
        found = Credential(ScramKeys(kept.salt, kept.iterations, kept.stored_key, kept.server_key), user)
        return None if known is None else found  # made for everybody: even this little would be seen in the time

    def decoys(self, mechanism: str) -> Decoys:
        """For users that do not exist; made anew when a user was changed."""
        credentials = self._image().scram_credentials
        if credentials is not self._decoys_of:
            self._decoys_of = credentials
            self._decoys = {name: self._make_decoys(credentials, name) for name in _NUMBERS}
        return self._decoys[mechanism]

    def _make_decoys(self, credentials: SharedMap[ScramKey, ScramCredential], mechanism: str) -> Decoys:
        kept = [value for key, value in credentials.items() if key.mechanism == _NUMBERS[mechanism]]
        known_to_brokers = kept[0].server_key if kept else b""
        secret = hmac.digest(self._image().cluster_id.encode(), known_to_brokers, hashlib.sha256)
        return Decoys(secret, (Shape.of(each.salt, each.iterations) for each in kept))
