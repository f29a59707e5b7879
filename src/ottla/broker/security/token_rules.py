"""Settings to the check of a token (OAUTHBEARER).

    sasl.server.callback.handler.class   ...OAuthBearerValidatorCallbackHandler: tokens are signed; the default here
                                         ...OAuthBearerUnsecuredValidatorCallbackHandler: anybody may make them

1. Kafka takes tokens without a signature unless it is told otherwise. Here that must be asked for in words, by the name
   of Kafka's handler; the names are words, no class is loaded.
2. Signed tokens need sasl.oauthbearer.jwks.endpoint.url. How the connection there is encrypted stands in the options
   of the JAAS entry (ssl.truststore.location and so on), as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Final

from ottla.broker.security.key_sets import KeySet, KeySource, MakeKeySet, check_allowed
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.access import SignedTokenHandler, UnsecuredTokenHandler
from ottla.errors import InvalidSetting
from ottla.net.sasl.oauthbearer_server import CheckToken
from ottla.net.sasl.provider import provider_tls
from ottla.net.sasl.server import Identity
from ottla.net.sasl.signed_tokens import SignedTokens, UnknownKey
from ottla.net.sasl.token_claims import ClaimRules, UnsecuredTokens

READ_TIMEOUT_MS: Final = 10_000
_UNSECURED: Final = "unsecuredValidator"


def token_check(
    settings: BrokerSettings, options: Mapping[str, str], key_set: MakeKeySet, now_ms: Callable[[], float]
) -> CheckToken:
    """`options` are those of the JAAS entry; InvalidSetting says what is missing."""
    handler = settings.sasl_server_callback_handler_class
    if handler is UnsecuredTokenHandler:
        unsecured = UnsecuredTokens(_unsecured_rules(options))
        return lambda token: unsecured.check(token, now_ms())
    if handler not in (None, SignedTokenHandler):
        raise InvalidSetting("sasl.server.callback.handler.class must be one of the names of Kafka's own handlers")
    url = settings.sasl_oauthbearer_jwks_endpoint_url
    if not url:
        raise InvalidSetting(
            "OAUTHBEARER is offered, so sasl.oauthbearer.jwks.endpoint.url must say where the keys are that tokens are "
            "signed with"
        )
    if find_spec("jwt") is None:
        raise InvalidSetting("signed tokens are checked with PyJWT, which is not installed: pip install 'ottla[oauth]'")
    check_allowed(url, settings.ottla_oauthbearer_allowed_urls, "sasl.oauthbearer.jwks.endpoint.url")
    keys = key_set(_source(settings, url, options))
    signed = SignedTokens(keys.keys, _signed_rules(settings))
    return partial(_check_signed, signed, keys, now_ms)


def _check_signed(signed: SignedTokens, keys: KeySet, now_ms: Callable[[], float], token: str) -> Identity:
    try:
        return signed.check(token, now_ms())
    except UnknownKey:
        keys.sooner()
        raise


def _source(settings: BrokerSettings, url: str, options: Mapping[str, str]) -> KeySource:
    return KeySource(
        url,
        settings.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
        settings.sasl_login_read_timeout_ms or READ_TIMEOUT_MS,
        provider_tls(options) if url.startswith("https") else None,
    )


def _signed_rules(settings: BrokerSettings) -> ClaimRules:
    return ClaimRules(
        issuer=settings.sasl_oauthbearer_expected_issuer,
        audiences=settings.sasl_oauthbearer_expected_audience,
        sub_claim=settings.sasl_oauthbearer_sub_claim_name,
        scope_claim=settings.sasl_oauthbearer_scope_claim_name,
        skew_ms=settings.sasl_oauthbearer_clock_skew_seconds * 1000,
    )


def _unsecured_rules(options: Mapping[str, str]) -> ClaimRules:
    def option(name: str, default: str) -> str:
        return options.get(_UNSECURED + name, default)

    skew = option("AllowableClockSkewMs", "0")
    if not skew.isascii() or not skew.isdecimal() or len(skew) > 9:
        raise InvalidSetting(f"{_UNSECURED}AllowableClockSkewMs in sasl.jaas.config is no number of milliseconds")
    return ClaimRules(
        sub_claim=option("PrincipalClaimName", "sub"),
        scope_claim=option("ScopeClaimName", "scope"),
        required_scope=frozenset(option("RequiredScope", "").split()),
        skew_ms=float(skew),
        needs_issue_time=False,
    )
