"""PKCS#12 stores, read with `cryptography`. The only file of this package that needs it to read; loaded when needed."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from ottla.errors import InvalidSetting
from ottla.light_tuples import NamedTuple


class Pkcs12Store(NamedTuple):
    """The key as PKCS#8, its certificate with those above it, and all certificates; everything DER."""

    key: bytes | None
    chain: tuple[bytes, ...]
    all: tuple[bytes, ...]


def read_pkcs12(content: bytes, password: str | None, name: str, setting: str) -> Pkcs12Store:
    """What a store holds; `name` and `setting` are for the error."""
    try:
        store = load_pkcs12(content, None if password is None else password.encode())
    except ValueError:
        hint = f"give {setting}" if password is None else f"{setting} is wrong, or it is damaged"
        raise InvalidSetting(f"{name} cannot be opened as a PKCS#12 store: {hint}") from None
    except UnsupportedAlgorithm as error:
        raise InvalidSetting(
            f"{name} cannot be opened: {error}; make it again with a newer keytool or openssl"
        ) from None
    others = [each.certificate for each in store.additional_certs]
    own = [] if store.cert is None else [store.cert.certificate]
    key = None
    if store.key is not None:
        key = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return Pkcs12Store(key, _encoded(_chain(own, others)), _encoded([*own, *others]))


def _chain(own: list[x509.Certificate], others: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """The certificate, and above each one its issuer as far as they are there."""
    chain = list(own)
    by_subject = {each.subject.public_bytes(): each for each in others}
    while chain and (above := by_subject.pop(chain[-1].issuer.public_bytes(), None)) is not None:
        chain.append(above)
    return chain


def _encoded(certificates: Sequence[x509.Certificate]) -> tuple[bytes, ...]:
    return tuple(each.public_bytes(Encoding.DER) for each in certificates)
