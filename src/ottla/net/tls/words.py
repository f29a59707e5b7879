"""Why a TLS handshake failed, in words that say what to do. OpenSSL's names are for those who know OpenSSL."""

from __future__ import annotations

import ssl
from typing import Final

_REASONS: Final = {
    "HTTP_REQUEST": "it speaks HTTP, not TLS",
    "HTTPS_PROXY_REQUEST": "it speaks to an HTTP proxy, not TLS",
    "WRONG_VERSION_NUMBER": "it does not speak TLS; is its security.protocol PLAINTEXT?",
    "UNSUPPORTED_PROTOCOL": "it speaks only TLS versions that are not in ssl.enabled.protocols",
    "VERSION_TOO_LOW": "it speaks only TLS versions that are not in ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "none of its cipher suites is allowed here (ssl.cipher.suites)",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "it cannot check the kind of key our certificate has",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate, and ssl.client.auth is required",
}
# Alerts are what the other side said.
_ALERTS: Final = {
    "UNKNOWN_CA": "the other side does not trust the authority of our certificate",
    "CERTIFICATE_UNKNOWN": "the other side does not accept our certificate",
    "BAD_CERTIFICATE": "the other side does not accept our certificate",
    "CERTIFICATE_REQUIRED": "the other side wants a certificate of ours; give ssl.keystore.location",
    "CERTIFICATE_EXPIRED": "our certificate has expired, says the other side",
    "UNSUPPORTED_CERTIFICATE": "our certificate is not good for this use, says the other side",
    "HANDSHAKE_FAILURE": "the other side refused: no cipher suite in common, or it wants a certificate of ours",
    "PROTOCOL_VERSION": "the other side speaks none of our TLS versions (ssl.enabled.protocols)",
    "ACCESS_DENIED": "the other side refused our certificate",
}


def handshake_failure(error: Exception) -> str:
    """What went wrong, seen from the side that accepted the connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    reason = str(getattr(error, "reason", None) or "")
    return _REASONS.get(reason) or alert_words(reason) or (reason.lower().replace("_", " ") or type(error).__name__)


def alert_words(reason: str) -> str | None:
    """What an alert of the other side means; None when it is none that we know."""
    _, is_alert, name = reason.partition("ALERT_")
    return _ALERTS.get(name) if is_alert else None
