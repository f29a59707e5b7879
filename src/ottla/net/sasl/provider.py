"""Asks an identity provider over HTTP(S): one question, one answer within bounds. It blocks, so it runs in a thread.

1. A provider's address is asked as it stands in the settings: redirections are not followed, because a provider that
   was taken over could send us anywhere.
2. An answer has at most ANSWER_LIMIT_BYTES; more is refused.
3. What may pass (no connection, a server error) is ProviderUnreachable; what will not is the provider's own words.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO, Final

from ottla.errors import AuthenticationFailed, OttlaError

ANSWER_LIMIT_BYTES: Final = 1 << 20
SHOWN_LIMIT: Final = 300
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})


class ProviderUnreachable(OttlaError):
    """The identity provider could not be asked. Check its URL and the way there; it is tried again."""


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


def ask(request: urllib.request.Request, *, timeout_ms: float, tls: ssl.SSLContext | None = None) -> bytes:
    """The answer to a request."""
    opener = urllib.request.build_opener(_NoRedirection, urllib.request.HTTPSHandler(context=tls))
    url = request.full_url
    try:
        with opener.open(request, timeout=timeout_ms / 1000) as answer:
            body: bytes = answer.read(ANSWER_LIMIT_BYTES + 1)
    except urllib.error.HTTPError as error:
        words = str(error.read(SHOWN_LIMIT), "utf-8", "replace")
        error.close()
        if error.code in _PASSING:
            raise ProviderUnreachable(f"{url} answered {error.code}: {words}") from None
        raise AuthenticationFailed(f"{url} refused ({error.code}): {words}") from None
    except OSError as error:
        raise ProviderUnreachable(f"{url}: {getattr(error, 'reason', None) or error}") from None
    if len(body) > ANSWER_LIMIT_BYTES:
        raise AuthenticationFailed(f"{url} answered with more than {ANSWER_LIMIT_BYTES} bytes")
    return body


def provider_tls(options: Mapping[str, str]) -> ssl.SSLContext:
    """How the connection to a provider is encrypted, from the ssl options of a JAAS entry."""
    from ottla.net.tls import TlsOptions, client_context

    return client_context(
        TlsOptions(
            ca_location=options.get("ssl.truststore.location"),
            ca_type=options.get("ssl.truststore.type"),
            ca_password=options.get("ssl.truststore.password"),
            ca_text=options.get("ssl.truststore.certificates"),
            store_location=options.get("ssl.keystore.location"),
            store_type=options.get("ssl.keystore.type"),
            store_password=options.get("ssl.keystore.password"),
            key_password=options.get("ssl.key.password"),
        )
    )
