"""A realm of our own: a KDC of MIT Kerberos (Debian: krb5-kdc, krb5-admin-server, krb5-user) on a free port."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

REALM = "OTTLA.TEST"
WAIT_S = 120
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"


def missing() -> str | None:
    """What is not there; None when everything is."""
    for command in ("krb5kdc", "kadmin.local", "kdb5_util", "kinit"):
        if shutil.which(command, path=_PATH) is None:
            return f"needs {command} (Debian: krb5-kdc krb5-admin-server krb5-user)"
    return None if importlib.util.find_spec("gssapi") else "needs gssapi: pip install 'ottla[gssapi]'"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Realm:
    """A KDC with principals; `environment` is what programs need to find it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            "PATH": _PATH,
            "KRB5_CONFIG": str(directory / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory / 'tickets'}",
            "KRB5RCACHEDIR": str(directory),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        port = free_port()
        (self.directory / "krb5.conf").write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n rdns = false\n"
            f" dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        )
        (self.directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self.directory / 'principal'}\n"
            f"  key_stash_file = {self.directory / 'stash'}\n }}\n"
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self._process = subprocess.Popen(
            [shutil.which("krb5kdc", path=_PATH) or "krb5kdc", "-n"],
            env=os.environ | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(WAIT_S)

    def keytab(self, principal: str) -> Path:
        """Make a principal; the file with its key."""
        path = self.directory / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {path} {principal}")
        return path

    def log_in(self, principal: str) -> None:
        """Get a ticket for it into the cache; the KDC may still be starting."""
        keytab = self.keytab(principal)
        for attempt in range(WAIT_S):
            done = self._run("kinit", "-k", "-t", str(keytab), principal, check=attempt == WAIT_S - 1)
            if done.returncode == 0:
                return
            subprocess.run(["sleep", "1"], check=True)

    def _run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        where = shutil.which(command[0], path=_PATH) or command[0]
        environment = os.environ | self.environment
        return subprocess.run([where, *command[1:]], env=environment, check=check, capture_output=True, timeout=WAIT_S)
