"""What brings a new node into a secured cluster: a ticket, good once and for an hour, and what it is exchanged for.

    token       2.CLUSTER-ID.AUTHORITY.TICKET.SECRET.CHECKSUM     the line for the next machine (tokens.py)
    request     {"csr": PEM, "mac": ...}                          in __ottla_join, by who has the ticket
    answer      AES-GCM of {"certificate": PEM, "token_key": ...} in __ottla_joined, by who has the authority's key

1. The ticket is a SCRAM user that may write into the one topic, read the other, and ask who is in the cluster. The
   token brings the authority's certificate, so the new node speaks with nobody else's brokers.
2. The new node makes its key and keeps it. The request has an HMAC by the secret, the answer is encrypted by it, with
   keys that are derived for one purpose each: that somebody can write into a topic, or read it, helps nobody.
3. This module is values only; signing.py is the side with the authority, joining.py the other one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.light_dataclasses import dataclass, field

if TYPE_CHECKING:
    from datetime import datetime

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from ottla.net.tls.authority import Authority

REQUESTS: Final = "__ottla_join"
ANSWERS: Final = "__ottla_joined"
USER_PREFIX: Final = "ottla-join-"
GOOD_FOR_MS: Final = 3_600_000
REQUEST_LIMIT_BYTES: Final = 16 << 10
HOSTS_LIMIT: Final = 32
_NONCE_BYTES: Final = 12


class WrongRequest(ValueError):
    """It is not of who has the ticket, or asks for what is not signed."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One new node."""

    name: str
    secret: str = field(repr=False)

    @classmethod
    def make(cls, random_bytes: Callable[[int], bytes]) -> Ticket:
        return cls(f"{USER_PREFIX}{random_bytes(6).hex()}", random_bytes(24).hex())

    def key(self, purpose: bytes) -> bytes:
        return hmac.digest(self.secret.encode(), b"ottla join " + purpose, "sha256")

    # --- the new node -------------------------------------------------------------------------------------------------

    def request(self, csr: str) -> bytes:
        return json.dumps({"csr": csr, "mac": self._mac(csr)}).encode()

    def opened(self, answer: bytes, csr: str) -> dict[str, str] | None:
        """What the answer to this request says; None when it is none."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            raw = b64decode(answer, validate=True)
            plain = AESGCM(self.key(b"answer")).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _digest(csr))
            found: dict[str, str] = json.loads(plain)
        except (ValueError, InvalidTag):
            return None
        return found

    # --- who signs ----------------------------------------------------------------------------------------------------

    def checked(self, request: bytes) -> str:
        """The signing request in it; WrongRequest."""
        if len(request) > REQUEST_LIMIT_BYTES:
            raise WrongRequest(f"it has {len(request)} bytes")
        try:
            value = json.loads(request)
            csr, mac = value["csr"], value["mac"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise WrongRequest("it is no request") from None
        if not isinstance(csr, str) or not isinstance(mac, str) or not mac.isascii():
            raise WrongRequest("it is no request")
        if not hmac.compare_digest(mac, self._mac(csr)):
            raise WrongRequest("it was not made with the ticket")
        return csr

    def sealed(self, value: dict[str, str], csr: str, random_bytes: Callable[[int], bytes]) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = random_bytes(_NONCE_BYTES)
        return b64encode(nonce + AESGCM(self.key(b"answer")).encrypt(nonce, json.dumps(value).encode(), _digest(csr)))

    def _mac(self, csr: str) -> str:
        return hmac.new(self.key(b"request"), csr.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def _digest(csr: str) -> bytes:
    return hashlib.sha256(csr.encode()).digest()


# --- certificates ----------------------------------------------------------------------------------------------------


def signing_request(key: EllipticCurvePrivateKey, hosts: Sequence[str]) -> str:
    """For these names and addresses; the name of the node itself is up to who signs."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    from ottla.net.tls.authority import host_name

    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    names = x509.SubjectAlternativeName([host_name(each) for each in hosts])
    return builder.add_extension(names, critical=False).sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def signed(authority: Authority, name: str, csr: str, now: datetime) -> str:
    """The certificate that a request asks for, with its chain; WrongRequest."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

    try:
        request = x509.load_pem_x509_csr(csr.encode())
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
        key = request.public_key()
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, UnsupportedAlgorithm) as error:
        raise WrongRequest(f"it has no signing request: {error}") from None
    # Which key it is comes first: to look at the signature of another kind may take as long as its maker likes.
    is_ours = isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)
    if not is_ours or not request.is_signature_valid:
        raise WrongRequest("its key is not one of ours")
    assert isinstance(key, EllipticCurvePublicKey), "it was looked at"
    if not 1 <= len(hosts) <= HOSTS_LIMIT or len(hosts) != len(list(names)):
        raise WrongRequest("a node has names and addresses, and not too many")
    return authority.sign(name, key, hosts=hosts, now=now)
