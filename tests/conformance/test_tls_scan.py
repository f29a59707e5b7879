"""What a TLS listener speaks, found out by asking as strangers do: TLS 1.2 and 1.3 only, no weak cipher suite.

1. Hellos are written byte by byte here, so that the library of this machine hides nothing: it would neither offer SSL 3
   nor RC4. The suites that a listener accepts are listed as scanners do it: offer all, strike out what was chosen, ask
   again, until nothing is chosen any more.
2. sslscan, where it is installed, must come to the same result.
3. Nobody makes a handshake again in a connection, and nothing is compressed.
"""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.patience import HANG_S
from tests.unit.net.tls_files import TlsFiles

from ottla.testing import KafkaBroker

SSL_3, TLS_1_0, TLS_1_1, TLS_1_2, TLS_1_3 = range(0x0300, 0x0305)
ALERT, HANDSHAKE = 21, 22
SERVER_HELLO = 2
SUPPORTED_GROUPS, POINT_FORMATS, SIGNATURES, SUPPORTED_VERSIONS, KEY_SHARES = 10, 11, 13, 43, 51
ALL_SUITES = [*range(0x0001, 0x00C8), *range(0xC001, 0xC100), *range(0xCC13, 0xCCAF), *range(0xFF80, 0xFF86)]
SUITES_1_3 = list(range(0x1301, 0x1308))
NAMES = {
    0x1301: "TLS_AES_128_GCM_SHA256",
    0x1302: "TLS_AES_256_GCM_SHA384",
    0x1303: "TLS_CHACHA20_POLY1305_SHA256",
    0xC023: "ECDHE-ECDSA-AES128-SHA256",
    0xC024: "ECDHE-ECDSA-AES256-SHA384",
    0xC02B: "ECDHE-ECDSA-AES128-GCM-SHA256",
    0xC02C: "ECDHE-ECDSA-AES256-GCM-SHA384",
    0xCCA9: "ECDHE-ECDSA-CHACHA20-POLY1305",
    # Libraries with other defaults may have these as well: authenticated encryption, and a key for each connection.
    0xC0AC: "ECDHE-ECDSA-AES128-CCM",
    0xC0AD: "ECDHE-ECDSA-AES256-CCM",
}
"""What may be accepted with an ECDSA certificate: all have forward secrecy, none has RC4, DES, NULL, EXPORT, MD5, SHA-1
or an anonymous server."""


class Hello(NamedTuple):
    """A server's first words."""

    version: int
    suite: int
    compression: int


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    with KafkaBroker(TlsFiles(tmp_path_factory.mktemp("scan")).broker_settings()) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        yield host, int(port)


# --- hellos by hand --------------------------------------------------------------------------------------------------


def sized(data: bytes, size_bytes: int = 2) -> bytes:
    return len(data).to_bytes(size_bytes) + data


def extension(kind: int, data: bytes) -> bytes:
    return struct.pack(">H", kind) + sized(data)


def shorts(numbers: list[int]) -> bytes:
    return b"".join(number.to_bytes(2) for number in numbers)


def client_hello(version: int, suites: list[int]) -> bytes:
    extensions = extension(SUPPORTED_GROUPS, sized(shorts([0x001D, 0x0017, 0x0018])))
    extensions += extension(POINT_FORMATS, sized(b"\0", 1))
    if version >= TLS_1_2:
        extensions += extension(SIGNATURES, sized(shorts([0x0403, 0x0503, 0x0804, 0x0401, 0x0203, 0x0201])))
    if version == TLS_1_3:
        extensions += extension(SUPPORTED_VERSIONS, sized(shorts([TLS_1_3]), 1)) + extension(KEY_SHARES, sized(b""))
    legacy = min(version, TLS_1_2)
    compressions = b"\0" if version == TLS_1_3 else b"\1\0"  # in 1.3 no other may be offered
    body = legacy.to_bytes(2) + bytes(range(32)) + sized(b"", 1) + sized(shorts(suites)) + sized(compressions, 1)
    body += b"" if version == SSL_3 else sized(extensions)
    message = b"\1" + sized(body, 3)
    return bytes([HANDSHAKE]) + min(version, TLS_1_0).to_bytes(2) + sized(message)


def answered(address: tuple[str, int], version: int, suites: list[int]) -> Hello | None:
    """What the server chose; None when it refused with an alert, or left."""
    with socket.create_connection(address, timeout=HANG_S) as client:
        client.sendall(client_hello(version, suites))
        head = _read(client, 5)
        if len(head) < 5 or head[0] == ALERT:
            return None
        assert head[0] == HANDSHAKE, head
        message = _read(client, int.from_bytes(head[3:]))
    assert message[0] == SERVER_HELLO, message
    return _server_hello(message[4:])


def _server_hello(body: bytes) -> Hello:
    end = 35 + body[34]
    suite, compression = struct.unpack_from(">HB", body, end)
    version, rest = int.from_bytes(body[:2]), body[end + 5 :]
    while rest:
        kind, size = struct.unpack_from(">HH", rest)
        if kind == SUPPORTED_VERSIONS:
            version = int.from_bytes(rest[4:6])
        rest = rest[4 + size :]
    return Hello(version, suite, compression)


def _read(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        try:
            more = client.recv(count - len(data))
        except ConnectionError:
            return data
        if not more:
            return data
        data += more
    return data


def accepted(address: tuple[str, int], version: int, suites: list[int]) -> set[int]:
    """Every suite that the server would choose."""
    found: set[int] = set()
    left = list(suites)
    while (hello := answered(address, version, left)) is not None:
        assert (hello.version, hello.compression) == (version, 0)
        assert hello.suite in left, "it chose what was not offered"
        left.remove(hello.suite)
        found.add(hello.suite)
    return found


@pytest.mark.parametrize("version", [SSL_3, TLS_1_0, TLS_1_1], ids=["SSL 3", "TLS 1.0", "TLS 1.1"])
def test_older_versions_are_refused(address: tuple[str, int], version: int) -> None:
    assert answered(address, version, ALL_SUITES) is None


@pytest.mark.parametrize(
    ("version", "suites", "best"), [(TLS_1_2, ALL_SUITES, 0xC02C), (TLS_1_3, SUITES_1_3, 0x1302)], ids=["1.2", "1.3"]
)
def test_no_weak_suite_is_accepted(address: tuple[str, int], version: int, suites: list[int], best: int) -> None:
    found = accepted(address, version, suites)
    assert {f"{suite:#06x}" for suite in found if suite not in NAMES} == set()
    assert best in found


def test_a_listener_of_one_version_speaks_no_other(tmp_path_factory: pytest.TempPathFactory) -> None:
    files = TlsFiles(tmp_path_factory.mktemp("one"))
    with KafkaBroker(files.broker_settings(ssl_enabled_protocols="TLSv1.3")) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        assert accepted((host, int(port)), TLS_1_2, ALL_SUITES) == set()
        assert accepted((host, int(port)), TLS_1_3, SUITES_1_3) != set()


# --- other people's scanners -----------------------------------------------------------------------------------------


def test_sslscan_finds_nothing_weak(address: tuple[str, int]) -> None:
    if shutil.which("sslscan") is None:
        pytest.skip("sslscan is not installed (Debian: apt install sslscan)")
    target = f"{address[0]}:{address[1]}"
    command = ["sslscan", "--no-colour", "--xml=-", target]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S).stdout
    report = ElementTree.fromstring(found[found.index("<?xml") :]).find("ssltest")
    assert report is not None
    spoken = {
        f"{each.get('type')} {each.get('version')}" for each in report.iter("protocol") if each.get("enabled") == "1"
    }
    assert spoken == {"tls 1.2", "tls 1.3"}
    ciphers = [(str(each.get("cipher")), str(each.get("strength"))) for each in report.iter("cipher")]
    assert ciphers
    assert {name for name, strength in ciphers if strength not in ("strong", "acceptable")} == set()
    assert {name for name, _ in ciphers} <= set(NAMES.values())
    assert [each.get("vulnerable") for each in report.iter("heartbleed") if each.get("vulnerable") != "0"] == []
    for name in ("compression", "renegotiation"):
        assert {each.get("supported") for each in report.iter(name)} <= {"0"}, name


def test_a_handshake_is_not_made_again_in_a_connection(address: tuple[str, int]) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (Debian: apt install openssl)")
    command = ["openssl", "s_client", "-tls1_2", "-connect", f"{address[0]}:{address[1]}"]
    asked = subprocess.run(command, input="R\n", capture_output=True, text=True, check=False, timeout=HANG_S)
    assert "RENEGOTIATING" in asked.stdout + asked.stderr
    assert "no renegotiation" in (asked.stdout + asked.stderr).lower()
