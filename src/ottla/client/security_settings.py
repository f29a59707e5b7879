"""How a client proves who it is and whom it trusts, in the words of three worlds.

Java's names are the truth. librdkafka's (sasl.username, ssl.ca.location) and kafka-python's (sasl_plain_username,
ssl_cafile) mean the same where they are aliases; where Java has no word of its own (separate files for certificate
and key) theirs is the setting. Stores are PEM, PKCS#12 or JKS (net/tls/stores.py).

What is done with them stands in `ottla.client.security`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.settings import LIST, Alias, Kind, Password, Settings, setting

if TYPE_CHECKING:
    import ssl

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
OIDC_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)


def _parse_upper(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value.strip().upper()


def _parse_ssl_context(value: object) -> ssl.SSLContext:
    import ssl  # loaded already by whoever has made a context

    if not isinstance(value, ssl.SSLContext):
        raise ValueError
    return value


def _parse_token_provider(value: object) -> Callable[..., Any]:
    """A function, or an object with a `token()` as kafka-python has it."""
    made = value if callable(value) else getattr(value, "token", None)
    if not callable(made):
        raise ValueError
    return made


def _from_check_hostname(value: object) -> str:
    return "https" if str(value).strip().lower() == "true" else ""


UPPER: Final = Kind("STRING", "a text", _parse_upper)
SSL_CONTEXT: Final = Kind("CLASS", "an ssl.SSLContext", _parse_ssl_context)
TOKEN_PROVIDER: Final = Kind("CLASS", "a function that gives a token", _parse_token_provider)


class SecuritySettings(Settings):
    security_protocol = setting(
        "security.protocol",
        UPPER,
        default="PLAINTEXT",
        one_of=SECURITY_PROTOCOLS,
        doc="Whether connections are encrypted (SSL) and whether the client logs in (SASL).",
    )

    # --- login ---

    sasl_mechanism = setting(
        "sasl.mechanism",
        UPPER,
        default="GSSAPI",
        aliases=["sasl.mechanisms"],
        doc="How the client logs in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI (Kerberos).",
    )
    sasl_username = setting(
        "sasl.username", str, default=None, aliases=["sasl.plain.username"], doc="The user for PLAIN and SCRAM."
    )
    sasl_password = setting(
        "sasl.password",
        Password,
        default=None,
        aliases=["sasl.plain.password"],
        doc="The user's password for PLAIN and SCRAM.",
    )
    sasl_jaas_config = setting(
        "sasl.jaas.config",
        Password,
        default=None,
        doc='User and secret in Java\'s form: <module> required username="..." password="...";',
    )
    sasl_oauthbearer_token_provider = setting(
        "sasl.oauthbearer.token.provider",
        TOKEN_PROVIDER,
        default=None,
        aliases=["oauth_cb", "sasl.oauth.token.provider"],
        doc="Gives a token: a text, or (text, end of life in seconds since 1970). May be an async function.",
    )
    sasl_oauthbearer_token_endpoint_url = setting(
        "sasl.oauthbearer.token.endpoint.url",
        str,
        default=None,
        doc="Where tokens are fetched with the client's id and secret (OIDC client credentials).",
    )
    sasl_oauthbearer_client_credentials_client_id = setting(
        "sasl.oauthbearer.client.credentials.client.id",
        str,
        default=None,
        aliases=["sasl.oauthbearer.client.id"],
        doc="The client's id at that address.",
    )
    sasl_oauthbearer_client_credentials_client_secret = setting(
        "sasl.oauthbearer.client.credentials.client.secret",
        Password,
        default=None,
        aliases=["sasl.oauthbearer.client.secret"],
        doc="The client's secret at that address.",
    )
    sasl_oauthbearer_scope = setting(
        "sasl.oauthbearer.scope", str, default=None, doc="What the token shall be good for; the provider knows."
    )
    sasl_oauthbearer_extensions = setting(
        "sasl.oauthbearer.extensions",
        LIST,
        default=(),
        doc="What is told to the broker besides the token: key=value, with commas between.",
    )
    sasl_oauthbearer_method = setting(
        "sasl.oauthbearer.method",
        str,
        default="default",
        one_of=("default", "oidc"),
        importance="low",
        doc="oidc insists on sasl.oauthbearer.token.endpoint.url; default takes what is given.",
    )
    sasl_login_callback_handler_class = setting(
        "sasl.login.callback.handler.class",
        str,
        default=None,
        one_of=OIDC_HANDLERS,
        importance="low",
        doc="Java's way to ask for OIDC; the names of its own two handlers are understood.",
    )
    sasl_login_read_timeout_ms = setting(
        "sasl.login.read.timeout.ms",
        int,
        default=10_000,
        at_least=1,
        unit="ms",
        importance="low",
        aliases=["sasl.login.connect.timeout.ms"],
        doc="How long one attempt to fetch a token may take.",
    )
    sasl_login_retry_backoff_ms = setting(
        "sasl.login.retry.backoff.ms",
        int,
        default=100,
        at_least=0,
        unit="ms",
        importance="low",
        doc="How long to wait before a token is asked for again; it doubles with every failure.",
    )
    sasl_login_retry_backoff_max_ms = setting(
        "sasl.login.retry.backoff.max.ms",
        int,
        default=10_000,
        at_least=0,
        unit="ms",
        importance="low",
        doc="The longest of these waits.",
    )

    sasl_kerberos_service_name = setting(
        "sasl.kerberos.service.name",
        str,
        default=None,
        doc="The first part of the brokers' principals in Kerberos; else serviceName of sasl.jaas.config, else kafka.",
    )
    sasl_kerberos_domain_name = setting(
        "sasl.kerberos.domain.name",
        str,
        default=None,
        importance="low",
        doc="The host in the brokers' principals, where it is not the one that the client connects to.",
    )
    sasl_kerberos_principal = setting(
        "sasl.kerberos.principal",
        str,
        default=None,
        doc="Whom the client logs in as with Kerberos; without it, whoever has a ticket in the system's cache.",
    )
    sasl_kerberos_keytab = setting(
        "sasl.kerberos.keytab",
        str,
        default=None,
        doc="A file with the principal's key; without it the ticket must be in the system's cache (kinit).",
    )

    # --- TLS: whom we trust ---

    ssl_context = setting(
        "ssl.context", SSL_CONTEXT, default=None, doc="A context made by you; then no other ssl setting may be given."
    )
    ssl_truststore_location = setting(
        "ssl.truststore.location",
        str,
        default=None,
        aliases=["ssl.ca.location", "ssl.cafile"],
        doc="A store, or a folder of PEM files, with the certificates the brokers' must come from; else the system's.",
    )
    ssl_truststore_certificates = setting(
        "ssl.truststore.certificates",
        Password,
        default=None,
        aliases=["ssl.ca.pem"],
        doc="Those certificates themselves as PEM text.",
    )
    ssl_truststore_type = setting(
        "ssl.truststore.type",
        UPPER,
        default=None,
        doc="The form of the trust store: PEM, PKCS12 or JKS; seen by itself.",
    )
    ssl_truststore_password = setting(
        "ssl.truststore.password", Password, default=None, doc="What opens a PKCS12 or JKS trust store."
    )
    ssl_endpoint_identification_algorithm = setting(
        "ssl.endpoint.identification.algorithm",
        str,
        default="https",
        one_of=("https", "none", ""),
        aliases=[Alias("ssl.check.hostname", _from_check_hostname)],
        doc="https compares the host with the name in the broker's certificate; none or an empty text does not.",
    )
    enable_ssl_certificate_verification = setting(
        "enable.ssl.certificate.verification",
        bool,
        default=True,
        importance="low",
        doc="false takes any certificate from anybody; for tests only.",
    )
    ssl_crl_location = setting(
        "ssl.crl.location",
        str,
        default=None,
        importance="low",
        aliases=["ssl.crlfile"],
        doc="A PEM file with the certificates that are revoked.",
    )

    # --- TLS: who we are ---

    ssl_keystore_location = setting(
        "ssl.keystore.location",
        str,
        default=None,
        doc="A store with the client's certificate and its key: PEM, PKCS12 or JKS.",
    )
    ssl_certificate_location = setting(
        "ssl.certificate.location",
        str,
        default=None,
        aliases=["ssl.certfile"],
        doc="A PEM file with the client's certificate.",
    )
    ssl_key_location = setting(
        "ssl.key.location", str, default=None, aliases=["ssl.keyfile"], doc="A PEM file with the client's key."
    )
    ssl_keystore_certificate_chain = setting(
        "ssl.keystore.certificate.chain",
        Password,
        default=None,
        aliases=["ssl.certificate.pem"],
        doc="The client's certificate itself as PEM text.",
    )
    ssl_keystore_key = setting(
        "ssl.keystore.key", Password, default=None, aliases=["ssl.key.pem"], doc="The key itself as PEM text."
    )
    ssl_key_password = setting(
        "ssl.key.password", Password, default=None, aliases=["ssl.password"], doc="What opens the key."
    )
    ssl_keystore_type = setting(
        "ssl.keystore.type",
        UPPER,
        default=None,
        doc="The form of the key store: PEM, PKCS12 or JKS; seen by itself.",
    )
    ssl_keystore_password = setting(
        "ssl.keystore.password", Password, default=None, doc="What opens a PKCS12 or JKS key store."
    )

    # --- TLS: how ---

    ssl_protocol = setting(
        "ssl.protocol", str, default="TLSv1.3", one_of=(*TLS_VERSIONS, "TLS"), doc="The best TLS version to use."
    )
    ssl_enabled_protocols = setting(
        "ssl.enabled.protocols", LIST, default=TLS_VERSIONS, one_of=TLS_VERSIONS, doc="Which TLS versions are spoken."
    )
    ssl_cipher_suites = setting(
        "ssl.cipher.suites",
        LIST,
        default=(),
        aliases=[Alias("ssl.ciphers", lambda value: value.split(":") if isinstance(value, str) else value)],
        importance="low",
        doc="Which ciphers TLS 1.2 may use, by OpenSSL's or Java's names; without it, the library's choice.",
    )
