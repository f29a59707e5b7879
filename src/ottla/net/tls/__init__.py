"""TLS: key and trust stores become contexts for clients and servers (contexts.py).

options.py        what somebody wants of TLS: stores, versions, cipher suites
stores.py         a store in whatever form it is, read: PEM, PKCS#12 or JKS
contexts.py       options become an ssl.SSLContext
stream.py         TLS on an accepted connection
distinguished_name.py   the subject of a certificate, as Java writes it
authority.py      makes certificates: for tests and for a broker that secures itself
"""

from ottla.net.tls.ciphers import openssl_name
from ottla.net.tls.contexts import client_context, server_context
from ottla.net.tls.options import VERSIONS, TlsOptions

__all__ = ["VERSIONS", "TlsOptions", "client_context", "openssl_name", "server_context"]
