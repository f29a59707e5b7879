"""What the claims of a token must say before its user is let in. Plain code: the time comes in.

1. A token has an end (exp) that is not over, and a beginning (nbf) that is; its user is not empty. Times may be off by
   the skew that is allowed between the clocks of maker and checker.
2. Where an issuer is expected it must be the one; where audiences are expected the token must be meant for one.
3. What the token allows (scope) must contain what is required, if anything is.
4. Numbers are numbers: true is none, and neither is a number that never ends.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Final

from ottla.light_dataclasses import dataclass
from ottla.net.sasl.oauthbearer_server import TokenRefused
from ottla.net.sasl.server import Identity

TOKEN_LIMIT: Final = 65_536
LATEST_S: Final = 1 << 53  # whole seconds that a float still tells apart


@dataclass(frozen=True)
class ClaimRules:
    """What is expected of a token."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    sub_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: frozenset[str] = frozenset()
    skew_ms: float = 30_000
    needs_issue_time: bool = True


def identity_in(claims: Mapping[str, object], rules: ClaimRules, now_ms: float) -> Identity:
    """Whose token it is; TokenRefused when the claims do not fit."""
    name = claims.get(rules.sub_claim)
    if not isinstance(name, str) or not name.strip():
        raise TokenRefused(f"it has no claim {rules.sub_claim!r} with a name")
    expires_ms = _times_fit(claims, rules, now_ms)
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused("it comes from another issuer than sasl.oauthbearer.expected.issuer")
    if rules.audiences and not set(_texts(claims.get("aud"))) & set(rules.audiences):
        raise TokenRefused("it is meant for nobody of sasl.oauthbearer.expected.audience")
    _check_scope(claims, rules)
    return Identity(name.strip(), expires_ms=expires_ms)


def _times_fit(claims: Mapping[str, object], rules: ClaimRules, now_ms: float) -> float:
    """When it ends."""
    ends_ms, begins_ms, issued_ms = (_time_ms(claims, each) for each in ("exp", "nbf", "iat"))
    if ends_ms is None:
        raise TokenRefused("it has no end (exp)")
    if issued_ms is None and rules.needs_issue_time:
        raise TokenRefused("it does not say when it was made (iat)")
    if issued_ms is not None and issued_ms > ends_ms:
        raise TokenRefused("it ended before it was made")
    if now_ms >= ends_ms + rules.skew_ms:
        raise TokenRefused("it has expired")
    if any(each is not None and now_ms < each - rules.skew_ms for each in (begins_ms, issued_ms)):
        raise TokenRefused("it is not good yet")
    return ends_ms


def _time_ms(claims: Mapping[str, object], claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # A whole number can be longer than any float: it is compared, never converted, before it is known to be one.
    if not is_number or not 0 <= value <= LATEST_S:  # type: ignore[operator]  # no number is not compared
        raise TokenRefused(f"the claim {claim!r} is no time")
    return float(value) * 1000  # type: ignore[arg-type]


def _check_scope(claims: Mapping[str, object], rules: ClaimRules) -> None:
    scope = claims.get(rules.scope_claim)
    words = {word for text in _texts(scope) for word in text.split()}
    if not words >= rules.required_scope:
        required = " ".join(sorted(rules.required_scope))
        raise TokenRefused("it does not allow what is required", status="insufficient_scope", scope=required)


def _texts(value: object) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise TokenRefused("a claim that must be text or a list of texts is neither")
    return values


# -- the parts of a token --------------------------------------------------------------------------------------------


def json_part(part: str) -> dict[str, object]:
    """A part of a token that holds JSON."""
    try:
        found = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise TokenRefused("a part of it is no JSON") from None
    if not isinstance(found, dict):
        raise TokenRefused("a part of it is no JSON object")
    return found


def split_token(token: str) -> tuple[str, str, str]:
    """Header, claims and signature, as they stand there."""
    if len(token) > TOKEN_LIMIT:
        raise TokenRefused("it is too long")
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("it is no JWT: it has not three parts")
    return parts[0], parts[1], parts[2]


class UnsecuredTokens:
    """Takes tokens that nobody signed, as anybody can make them. Only where the settings ask for it in words."""

    def __init__(self, rules: ClaimRules) -> None:
        self._rules = rules

    def check(self, token: str, now_ms: float) -> Identity:
        header, claims, signature = split_token(token)
        if json_part(header).get("alg") != "none" or signature:
            raise TokenRefused("it is signed, and here only tokens without a signature are taken")
        return identity_in(json_part(claims), self._rules, now_ms)
