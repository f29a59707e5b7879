"""TLS contexts from files and texts, tried on a real handshake over loopback. The certificates are made here."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest
from tests.patience import HANG_S
from tests.unit.net.papers import Papers, make_papers

from ottla.errors import InvalidSetting, NotConnected, OttlaError, TlsHandshakeFailed
from ottla.net.link import Link
from ottla.net.tls import TlsOptions, client_context, openssl_name
from ottla.net.transport import TcpTransport

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return make_papers(tmp_path_factory.mktemp("papers"))


class Quiet:
    """Events of a link that nobody needs."""

    def opened(self, link: Link) -> None: ...
    def frame_received(self, frame: memoryview) -> None: ...
    def writable_changed(self, writable: bool) -> None: ...
    def closed(self, error: OttlaError | None) -> None: ...


def shake_hands(
    papers: Papers,
    context: ssl.SSLContext | None,
    *,
    host: str = "localhost",
    wants_client: bool = False,
    plain: bool = False,
) -> None:
    """Connect once to a server that has the papers; raises what the client was told."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(papers.server, papers.server_key)
    if wants_client:
        server_context.load_verify_locations(papers.ca)
        server_context.verify_mode = ssl.CERT_REQUIRED
        server_context.maximum_version = ssl.TLSVersion.TLSv1_2  # a refusal in 1.3 comes after the client is content

    async def once() -> None:
        transport = TcpTransport()
        listener = await transport.serve("127.0.0.1", 0, Quiet, tls=None if plain else server_context)
        try:
            link = await asyncio.wait_for(transport.connect(host, listener.port, Quiet(), tls=context), HANG_S)
            link.close()
        finally:
            listener.close()
            await asyncio.sleep(0.01)

    asyncio.run(once())


def test_a_trusted_broker_is_taken(papers: Papers) -> None:
    shake_hands(papers, client_context(TlsOptions(ca_location=str(papers.ca))))


def test_trusted_certificates_may_be_a_text(papers: Papers) -> None:
    shake_hands(papers, client_context(TlsOptions(ca_text=papers.ca.read_text())))


def test_an_untrusted_broker_is_refused_with_the_reason(papers: Papers) -> None:
    with pytest.raises(TlsHandshakeFailed, match="is not trusted"):
        shake_hands(papers, client_context(TlsOptions(ca_location=str(papers.other_ca))))


def test_another_name_is_refused_unless_that_is_wanted(papers: Papers) -> None:
    with pytest.raises(TlsHandshakeFailed, match="IP address mismatch"):
        shake_hands(papers, client_context(TlsOptions(ca_location=str(papers.ca))), host="127.0.0.1")
    lax = TlsOptions(ca_location=str(papers.ca), check_hostname=False)
    shake_hands(papers, client_context(lax), host="127.0.0.1")


def test_any_certificate_is_taken_only_when_asked(papers: Papers) -> None:
    shake_hands(papers, client_context(TlsOptions(check_certificate=False)), host="127.0.0.1")


def test_a_port_without_tls_is_named(papers: Papers) -> None:
    with pytest.raises((NotConnected, TlsHandshakeFailed), match="TLS"):
        shake_hands(papers, client_context(TlsOptions(ca_location=str(papers.ca))), plain=True)


@pytest.mark.parametrize("form", ["files", "locked file", "one file", "texts", "locked texts", "one line"])
def test_a_client_shows_its_certificate(papers: Papers, form: str, tmp_path: Path) -> None:
    ca, certificate, key = str(papers.ca), papers.client.read_text(), papers.client_key.read_text()
    both = tmp_path / "both.pem"
    both.write_text(key + certificate)
    options = {
        "files": TlsOptions(ca, certificate_location=str(papers.client), key_location=str(papers.client_key)),
        "locked file": TlsOptions(
            ca,
            certificate_location=str(papers.client),
            key_location=str(papers.locked_key),
            key_password="opensesame",
        ),
        "one file": TlsOptions(ca, certificate_location=str(both)),
        "texts": TlsOptions(ca, certificate_text=certificate, key_text=key),
        "locked texts": TlsOptions(
            ca, certificate_text=certificate, key_text=papers.locked_key.read_text(), key_password="opensesame"
        ),
        "one line": TlsOptions(
            ca, certificate_text=" ".join(certificate.split("\n")), key_text=key.strip().replace("\n", "\\n")
        ),
    }[form]
    shake_hands(papers, client_context(options), wants_client=True)
    assert "PRIVATE" not in repr(options)
    assert "opensesame" not in repr(options)


def test_a_client_without_a_certificate_is_refused(papers: Papers) -> None:
    with pytest.raises((TlsHandshakeFailed, NotConnected)):
        shake_hands(papers, client_context(TlsOptions(ca_location=str(papers.ca))), wants_client=True)


def test_only_the_versions_that_are_wanted(papers: Papers) -> None:
    context = client_context(TlsOptions(versions=["TLSv1.2"]))
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("wrong", ["wrong password", "no password", "other key", "no key", "jks", "der", "junk ca"])
def test_papers_that_cannot_be_used_are_refused_without_hanging(papers: Papers, tmp_path: Path, wrong: str) -> None:
    locked = {"certificate_location": str(papers.client), "key_location": str(papers.locked_key)}
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (tmp_path / "store.p12").write_bytes(b"\x30\x82\0\0")
    (tmp_path / "junk.pem").write_text("nothing")
    options, why = {
        "wrong password": (TlsOptions(**locked, key_password="hunter2"), "cannot be used"),  # type: ignore[arg-type]
        "no password": (TlsOptions(**locked), r"ssl\.key\.password"),  # type: ignore[arg-type]
        "other key": (
            TlsOptions(certificate_location=str(papers.client), key_location=str(papers.server_key)),
            "does not belong",
        ),
        "no key": (TlsOptions(certificate_text=papers.client.read_text()), "belong together"),
        "jks": (TlsOptions(ca_location=str(tmp_path / "store.jks")), "cut off"),
        "der": (TlsOptions(ca_location=str(tmp_path / "store.p12")), "PKCS#12 store: give ssl.truststore.password"),
        "junk ca": (TlsOptions(ca_location=str(tmp_path / "junk.pem")), "no certificate"),
    }[wrong]
    with pytest.raises(InvalidSetting, match=why) as refused:
        client_context(options)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("java", "open_ssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_ciphers_have_two_names(java: str, open_ssl: str) -> None:
    assert openssl_name(java) == open_ssl


def test_ciphers_can_be_chosen_and_unknown_ones_are_refused() -> None:
    context = client_context(TlsOptions(ciphers=["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]))
    old = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert old == ["ECDHE-RSA-AES128-GCM-SHA256"]
    for ciphers in (["NO-SUCH"], ["TLS_AES_128_GCM_SHA256"]):
        with pytest.raises(InvalidSetting, match=r"ssl\.cipher\.suites"):
            client_context(TlsOptions(ciphers=ciphers))
