"""Certificates for tests, made on the spot with the openssl command: nothing to keep, nothing that runs out.

papers = make_papers(tmp_path)            # an authority, a server "localhost" and a client "client" it signed
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple


class Papers(NamedTuple):
    """A small authority and what it signed; paths of PEM files."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    locked_key: Path
    other_ca: Path


def openssl(*arguments: str, cwd: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True)


def make_authority(directory: Path, name: str) -> Path:
    subject = ["-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"]
    openssl("req", "-x509", *key, "-days", "3650", *subject, "-out", f"{name}.pem", cwd=directory)
    return directory / f"{name}.pem"


def make_signed(directory: Path, name: str, alternatives: str) -> tuple[Path, Path]:
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"]
    openssl("req", *key, "-subj", f"/CN={name}", "-out", f"{name}.csr", cwd=directory)
    (directory / f"{name}.ext").write_text(f"subjectAltName={alternatives}\nauthorityKeyIdentifier=keyid\n")
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "3650", "-extfile", f"{name}.ext"]
    openssl("x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem", cwd=directory)
    return directory / f"{name}.pem", directory / f"{name}.key"


def make_papers(directory: Path) -> Papers:
    ca, other = make_authority(directory, "ca"), make_authority(directory, "other")
    server, server_key = make_signed(directory, "server", "DNS:localhost")
    client, client_key = make_signed(directory, "client", "DNS:client")
    openssl("pkcs8", "-topk8", "-in", "client.key", "-passout", "pass:opensesame", "-out", "locked.key", cwd=directory)
    return Papers(ca, server, server_key, client, client_key, directory / "locked.key", other)
