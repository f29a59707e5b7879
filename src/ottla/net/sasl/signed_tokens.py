"""Tokens that somebody signed whom we trust (JWT, RFC 7519), checked with his public keys (JWKS, RFC 7517).

1. Only signatures with a public key count: RS, PS and ES with SHA-2, and EdDSA. "none" and the keyed hashes (HS) are
   refused by their name before a key is looked at, so a public key can never be used as a shared secret.
2. A key counts for the algorithms of its own kind, and only for the one it names, if it names one; keys for encryption
   and secret keys in the set are left out.
3. The token's kid says which key; without it every key that fits is tried, KEYS_TRIED at most.
4. The signature is checked first; claims that nobody signed are never believed (token_claims.py).

PyJWT and cryptography are loaded when the first keys are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass
from ottla.net.sasl.oauthbearer_server import TokenRefused
from ottla.net.sasl.server import Identity
from ottla.net.sasl.token_claims import ClaimRules, identity_in, json_part, split_token

ALGORITHMS: Final = {
    "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    "EC": frozenset({"ES256", "ES384", "ES512"}),
    "OKP": frozenset({"EdDSA"}),
}
KEYS_LIMIT: Final = 1_000
KEYS_TRIED: Final = 10
JWKS_LIMIT_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class PublicKey:
    """One key of a set."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any


class UnknownKey(TokenRefused):
    """The token names a key that is not there; the set may be old."""


def read_keys(text: bytes) -> tuple[PublicKey, ...]:
    """The keys of a set; those that cannot be used are left out. InvalidSetting when it is none, or has no key."""
    try:
        found = json.loads(text)["keys"]
        assert isinstance(found, list)
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError):
        raise InvalidSetting("this is no set of keys (JWKS): an object with a list of keys is expected") from None
    keys = tuple(key for each in found[:KEYS_LIMIT] if (key := _read_key(each)) is not None)
    if not keys:
        raise InvalidSetting("the set of keys has none that a signature can be checked with")
    return keys


def _read_key(entry: object) -> PublicKey | None:
    import jwt

    if not isinstance(entry, dict) or entry.get("use") not in (None, "sig") or entry.get("kty") not in ALGORITHMS:
        return None
    algorithms = ALGORITHMS[entry["kty"]]
    named, kid = entry.get("alg"), entry.get("kid")
    public = {name: value for name, value in entry.items() if name not in ("d", "p", "q", "dp", "dq", "qi", "oth")}
    try:
        made = jwt.PyJWK(public)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    fitting = algorithms if named is None else algorithms & {named}
    return PublicKey(kid if isinstance(kid, str) else None, fitting, made.key) if fitting else None


class SignedTokens:
    """Takes tokens signed with one of the keys, which may change: `keys` gives the newest."""

    def __init__(self, keys: Callable[[], tuple[PublicKey, ...]], rules: ClaimRules) -> None:
        self._keys = keys
        self._rules = rules

    def check(self, token: str, now_ms: float) -> Identity:
        """Whose token it is; TokenRefused when it is not good, UnknownKey when its key is not there."""
        header = json_part(split_token(token)[0])
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not any(algorithm in each for each in ALGORITHMS.values()):
            raise TokenRefused("it is not signed with a public key")
        if "crit" in header or "b64" in header:
            raise TokenRefused("its header wants something that is not known")
        fitting = [key for key in self._keys() if algorithm in key.algorithms and kid in (None, key.kid)]
        if not fitting:
            raise UnknownKey("no key is known that it could be signed with")
        if not any(_is_signed(token, key.key, algorithm) for key in fitting[:KEYS_TRIED]):
            raise TokenRefused("its signature is wrong")
        return identity_in(json_part(split_token(token)[1]), self._rules, now_ms)


def _is_signed(token: str, key: Any, algorithm: str) -> bool:
    import jwt

    try:
        jwt.PyJWS().decode(token, key, algorithms=[algorithm])
    except (jwt.PyJWTError, ValueError, TypeError):
        return False
    return True
