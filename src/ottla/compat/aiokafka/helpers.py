"""aiokafka.helpers: a TLS context from files."""

from __future__ import annotations

import ssl
from typing import Any


def create_ssl_context(
    *,
    cafile: Any = None,
    capath: Any = None,
    cadata: Any = None,
    certfile: Any = None,
    keyfile: Any = None,
    password: Any = None,
) -> ssl.SSLContext:
    """Check brokers against these authorities (the system's, when none are named), and show this certificate."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=cafile, capath=capath, cadata=cadata)
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile, password)
    return context
