"""Key and trust stores as keytool, openssl and cryptography make them, each used for a handshake in memory."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.net.tls_files import HOSTS, Authority

from ottla.errors import InvalidSetting
from ottla.net.tls import TlsOptions, client_context, server_context
from ottla.net.tls.ciphers import TLS13_SUITES
from ottla.net.tls.jks import JksError, read_jks, unlock_key

needs_keytool = pytest.mark.skipif(shutil.which("keytool") is None, reason="needs the keytool of a JDK")
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
PASSWORD, KEY_PASSWORD = "storesecret", "keysecret"


class Stores:
    """Files of one server's key and of the authority above it, in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = Authority.make("Root CA")
        self.authority = self.root.intermediate("Middle CA")
        self.issued = self.authority.issue("server", hosts=HOSTS)
        self.ca = self.write("ca.pem", self.root.pem)
        self.pem = self.write("server.pem", self.issued.pem)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def pkcs12(self, name: str = "made.p12", password: str = PASSWORD) -> Path:
        lock = BestAvailableEncryption(password.encode())
        issued = self.issued
        content = serialize_key_and_certificates(b"server", issued.key, issued.certificate, issued.chain, lock)
        return self.write(name, content)

    def keytool(self, *arguments: str) -> None:
        subprocess.run(["keytool", "-J-Xshare:auto", *arguments], cwd=self.directory, check=True, capture_output=True)

    def imported(self, kind: str, key_password: str = PASSWORD) -> Path:
        """A key store by keytool."""
        target = self.directory / f"server.{kind.lower()}"
        target.unlink(missing_ok=True)
        source = ["-srckeystore", str(self.pkcs12()), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD]
        made = ["-destkeystore", str(target), "-deststoretype", kind, "-deststorepass", PASSWORD]
        keys = ["-srcalias", "server", "-destkeypass", key_password]
        self.keytool("-importkeystore", "-noprompt", *source, *made, *keys)
        return target

    def trusted(self, kind: str) -> Path:
        """A trust store by keytool."""
        target = self.directory / f"trust.{kind.lower()}"
        target.unlink(missing_ok=True)
        made = ["-keystore", str(target), "-storetype", kind, "-storepass", PASSWORD]
        self.keytool("-importcert", "-noprompt", "-alias", "root", "-file", str(self.ca), *made)
        return target


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


def shake_hands(server: TlsOptions, client: TlsOptions) -> ssl.SSLObject:
    """Both sides in memory; the client's side when it is complete, ssl.SSLError when it is not."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server_context(server).wrap_bio(to_server, to_client, server_side=True)
    asking = client_context(client).wrap_bio(to_client, to_server, server_hostname="localhost")
    waiting = [asking, serving]
    while waiting:
        side = waiting.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(side)
    return asking


def both(stores: Stores, options: TlsOptions) -> None:
    """The store works for a server that a client checks, and for a client that a server checks."""
    trust = TlsOptions(ca_location=str(stores.ca))
    shake_hands(options, trust)
    asks = TlsOptions(store_location=str(stores.pem), ca_location=str(stores.ca), client_auth="required")
    shake_hands(asks, replace(options, ca_location=str(stores.ca)))


# --- key stores ------------------------------------------------------------------------------------------------------


def test_a_password_for_a_key_that_has_no_lock_is_refused_where_kafka_refuses_it(stores: Stores) -> None:
    """Kafka takes the key for an encrypted one, in a file and as text. Files by librdkafka's names are not Kafka's."""
    certificate, key = stores.issued.certificates_pem, stores.issued.key_pem()
    with pytest.raises(InvalidSetting, match=r"is not encrypted, and ssl\.key\.password is given") as refused:
        server_context(TlsOptions(certificate_text=certificate, key_text=key, key_password="hunter2"))
    assert "hunter2" not in str(refused.value)
    both(stores, TlsOptions(certificate_location=str(stores.pem), key_password="hunter2"))


def test_pem_in_one_file_and_as_texts_and_locked(stores: Stores) -> None:
    both(stores, TlsOptions(store_location=str(stores.pem), store_type="PEM"))
    certificate, key = stores.issued.certificates_pem, stores.issued.key_pem()
    both(stores, TlsOptions(certificate_text=certificate, key_text=key))
    locked = stores.issued.key_pem(KEY_PASSWORD)
    both(stores, TlsOptions(certificate_text=certificate, key_text=locked, key_password=KEY_PASSWORD))
    file = stores.write("locked.pem", certificate + locked)
    both(stores, TlsOptions(store_location=str(file), key_password=KEY_PASSWORD))


def test_pkcs12_of_cryptography(stores: Stores) -> None:
    both(stores, TlsOptions(store_location=str(stores.pkcs12()), store_type="PKCS12", store_password=PASSWORD))


@needs_openssl
@pytest.mark.parametrize("legacy", [False, True])
def test_pkcs12_of_openssl(stores: Stores, legacy: bool) -> None:
    target = stores.directory / "openssl.p12"
    old = ["-certpbe", "PBE-SHA1-3DES", "-keypbe", "PBE-SHA1-3DES", "-macalg", "sha1"] if legacy else []
    made = ["-in", str(stores.pem), "-out", str(target), "-passout", f"pass:{PASSWORD}"]
    subprocess.run(["openssl", "pkcs12", "-export", *made, *old], check=True, capture_output=True)
    both(stores, TlsOptions(store_location=str(target), store_password=PASSWORD))


@needs_keytool
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("said", ["JKS", "PKCS12", None])
def test_key_stores_of_keytool_whatever_the_type_says(stores: Stores, kind: str, said: str | None) -> None:
    store = stores.imported(kind)
    both(stores, TlsOptions(store_location=str(store), store_type=said, store_password=PASSWORD))


@needs_keytool
def test_a_key_in_a_jks_may_have_a_password_of_its_own(stores: Stores) -> None:
    options = TlsOptions(store_location=str(stores.imported("JKS", KEY_PASSWORD)), store_password=PASSWORD)
    both(stores, replace(options, key_password=KEY_PASSWORD))
    with pytest.raises(InvalidSetting, match=r"entry 'server': the password of the key is wrong; give ssl\.key\.pass"):
        server_context(options)


# --- trust stores ----------------------------------------------------------------------------------------------------


@needs_keytool
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_trust_stores_of_keytool(stores: Stores, kind: str) -> None:
    trust = str(stores.trusted(kind))
    server = TlsOptions(store_location=str(stores.pem))
    shake_hands(server, TlsOptions(ca_location=trust, ca_type=kind, ca_password=PASSWORD))
    if kind == "JKS":  # without a password Java reads it as well, unchecked
        shake_hands(server, TlsOptions(ca_location=trust))
    with pytest.raises(InvalidSetting, match="is wrong"):
        client_context(TlsOptions(ca_location=trust, ca_password="hunter2hunter2"))


def test_every_trusted_certificate_is_an_anchor_also_one_in_the_middle(stores: Stores) -> None:
    middle = stores.write("middle.pem", stores.authority.pem)
    shake_hands(TlsOptions(store_location=str(stores.pem)), TlsOptions(ca_location=str(middle)))


def test_the_chain_is_sent(stores: Stores) -> None:
    """The client knows the root only; the certificate in the middle comes with the server's."""
    for store, password in ((stores.pem, None), (stores.pkcs12(), PASSWORD)):
        server = TlsOptions(store_location=str(store), store_password=password)
        shake_hands(server, TlsOptions(ca_location=str(stores.ca)))


# --- what cannot be used ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (TlsOptions(store_location="{pem}", store_type="JKS"), "is PEM, but ssl.keystore.type is JKS"),
        (TlsOptions(store_location="{p12}", store_type="PEM"), "is a PKCS12 store, but ssl.keystore.type is PEM"),
        (TlsOptions(store_location="{p12}", store_type="BCFKS"), "there is PEM, PKCS12, JKS"),
        (TlsOptions(store_location="{p12}"), "needs ssl.keystore.password"),
        (TlsOptions(store_location="{p12}", store_password="hunter2"), "ssl.keystore.password is wrong"),
        (
            TlsOptions(store_location="{p12}", store_password=PASSWORD, key_password="hunter2"),
            "ssl.key.password must be that of ssl.keystore.password",
        ),
        (TlsOptions(store_location="{pem}", store_password="hunter2"), "a PEM file, which has none"),
        (TlsOptions(store_location="{pem}", key_password="hunter2"), "is not encrypted, and ssl.key.password is given"),
        (TlsOptions(store_location="{ca}"), "there is no key"),
        (TlsOptions(store_location="{jceks}", store_password="x"), "keytool -importkeystore"),
        (TlsOptions(store_location="{empty}"), "is empty"),
        (TlsOptions(store_location="{bytes}"), "neither PEM nor"),
        (TlsOptions(store_location="{directory}"), "cannot be read: Is a directory"),
        (TlsOptions(certificate_text="x", key_text="y"), "no certificate"),
        (TlsOptions(store_location="{pem}", certificate_text="x", key_text="y"), "are both given"),
        (TlsOptions(store_location="{pem}", ca_text="x", client_auth="required"), "holds no certificate"),
        (TlsOptions(store_location="{pem}", ciphers=["TLS_AES_128_GCM_SHA256"]), "cannot choose among"),
        (TlsOptions(store_location="{pem}", ciphers=["TLS_AES_1_SHA1"]), "is not known"),
        (TlsOptions(store_location="{pem}", ciphers=["NO-SUCH-ONE"]), "none of NO-SUCH-ONE is known"),
        (
            TlsOptions(store_location="{pem}", ciphers=["ECDHE-RSA-AES128-GCM-SHA256", "NO-SUCH"]),
            "NO-SUCH is not known",
        ),
        (TlsOptions(store_location="{pem}", ciphers=TLS13_SUITES, versions=["TLSv1.2"]), "no suite of the versions"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(stores: Stores, options: TlsOptions, why: str) -> None:
    places = {
        "{pem}": stores.pem,
        "{p12}": stores.pkcs12(),
        "{ca}": stores.ca,
        "{jceks}": stores.write("x.jceks", b"\xce\xce\xce\xce\0\0\0\2"),
        "{empty}": stores.write("empty.pem", ""),
        "{bytes}": stores.write("bytes", bytes(range(128, 256))),
        "{directory}": stores.directory,
    }
    located = replace(options, store_location=str(places.get(options.store_location or "", "")) or None)
    if options.store_location is None:
        located = options
    with pytest.raises(InvalidSetting, match=why) as refused:
        server_context(located)
    assert "hunter2" not in str(refused.value)
    assert "PRIVATE" not in str(refused.value)


def test_suites_of_one_version_leave_that_version(stores: Stores) -> None:
    options = TlsOptions(store_location=str(stores.pem))
    newer = server_context(replace(options, ciphers=TLS13_SUITES))
    assert newer.minimum_version is ssl.TLSVersion.TLSv1_3
    older = server_context(replace(options, ciphers=["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]))
    assert older.maximum_version is ssl.TLSVersion.TLSv1_2


def test_a_server_takes_nothing_older_and_no_weak_suites(stores: Stores) -> None:
    context = server_context(TlsOptions(store_location=str(stores.pem)))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    weak = ("NULL", "RC4", "DES", "MD5", "EXP", "anon")
    assert not [each["name"] for each in context.get_ciphers() if any(word in each["name"] for word in weak)]


# --- JKS -------------------------------------------------------------------------------------------------------------

# Made by JDK 17: keytool -genkeypair -keyalg EC -groupname secp256r1 -dname CN=kept -validity 36500 -storetype JKS
KEPT = Path(__file__).parents[2] / "golden" / "tls" / "kept.jks"


def test_a_store_of_keytool_that_is_kept() -> None:
    store = read_jks(KEPT.read_bytes(), PASSWORD)
    assert [entry.alias for entry in store.keys] == ["kept"]
    assert unlock_key(store.keys[0].locked_key, PASSWORD).startswith(b"\x30")
    server_context(TlsOptions(store_location=str(KEPT), store_password=PASSWORD))


@given(st.data())
def test_a_damaged_store_is_refused_and_nothing_else_happens(data: st.DataObject) -> None:
    content = bytearray(KEPT.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(content)))
    with pytest.raises(JksError):
        read_jks(bytes(content), PASSWORD)
    with pytest.raises(JksError):
        read_jks(KEPT.read_bytes()[:cut][:-1], PASSWORD)


def test_the_library_for_pkcs12_is_not_loaded_for_pem(stores: Stores) -> None:
    code = (
        "import sys, ottla.net.tls as t;"
        f"t.server_context(t.TlsOptions(store_location={str(stores.pem)!r}));"
        "assert 'cryptography' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
