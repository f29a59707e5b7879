"""How TLS listeners prove who they are and whom they trust.

Every name may be given for one listener: listener.name.<name>.ssl.keystore.location.
"""

from __future__ import annotations

from ottla.broker.settings.no_effect import PROVIDERS
from ottla.settings import CALLABLE, LIST, Password, Settings, setting


class TlsSettings(Settings):
    ssl_keystore_location = setting(
        "ssl.keystore.location",
        str,
        default=None,
        dynamic="per-broker",
        doc="The file with the broker's certificate and key.",
    )
    ssl_keystore_type = setting(
        "ssl.keystore.type", str, default="JKS", dynamic="per-broker", doc="The form of that file."
    )
    ssl_keystore_password = setting(
        "ssl.keystore.password", Password, default=None, dynamic="per-broker", doc="What opens that file."
    )
    ssl_key_password = setting(
        "ssl.key.password", Password, default=None, dynamic="per-broker", doc="What opens the key."
    )
    ssl_keystore_key = setting(
        "ssl.keystore.key", Password, default=None, dynamic="per-broker", doc="The key itself as PEM text."
    )
    ssl_keystore_certificate_chain = setting(
        "ssl.keystore.certificate.chain",
        Password,
        default=None,
        dynamic="per-broker",
        doc="The certificates themselves as PEM text.",
    )
    ssl_truststore_location = setting(
        "ssl.truststore.location",
        str,
        default=None,
        dynamic="per-broker",
        doc="The file with the certificates that others' must come from.",
    )
    ssl_truststore_type = setting(
        "ssl.truststore.type", str, default="JKS", dynamic="per-broker", doc="The form of that file."
    )
    ssl_truststore_password = setting(
        "ssl.truststore.password", Password, default=None, dynamic="per-broker", doc="What opens that file."
    )
    ssl_truststore_certificates = setting(
        "ssl.truststore.certificates",
        Password,
        default=None,
        dynamic="per-broker",
        doc="Those certificates themselves as PEM text.",
    )
    ssl_client_auth = setting(
        "ssl.client.auth",
        str,
        default="none",
        one_of=("required", "requested", "none"),
        dynamic="per-broker",
        doc="Whether clients must show a certificate: required, requested or none.",
    )
    ssl_principal_mapping_rules = setting(
        "ssl.principal.mapping.rules",
        str,
        default="DEFAULT",
        importance="low",
        doc="Rules that make names of certificate subjects; the first that fits counts.",
    )
    ssl_endpoint_identification_algorithm = setting(
        "ssl.endpoint.identification.algorithm",
        str,
        default="https",
        importance="low",
        dynamic="per-broker",
        doc="How the name in another broker's certificate is checked; an empty text turns the check off.",
    )
    ssl_protocol = setting("ssl.protocol", str, default="TLSv1.3", dynamic="per-broker", doc="The best TLS version.")
    ssl_enabled_protocols = setting(
        "ssl.enabled.protocols",
        LIST,
        default=("TLSv1.2", "TLSv1.3"),
        dynamic="per-broker",
        doc="Which TLS versions are spoken.",
    )
    ssl_cipher_suites = setting(
        "ssl.cipher.suites",
        LIST,
        default=(),
        dynamic="per-broker",
        doc="Which ciphers may be used; without it, the library's choice.",
    )
    ssl_provider = setting(
        "ssl.provider",
        str,
        default=None,
        dynamic="per-broker",
        no_effect=PROVIDERS,
        doc="The Java library that does TLS; it means nothing here.",
    )
    ssl_keymanager_algorithm = setting(
        "ssl.keymanager.algorithm",
        str,
        default="SunX509",
        dynamic="per-broker",
        no_effect=PROVIDERS,
        doc="How Java finds its key; it means nothing here.",
    )
    ssl_trustmanager_algorithm = setting(
        "ssl.trustmanager.algorithm",
        str,
        default="PKIX",
        dynamic="per-broker",
        no_effect=PROVIDERS,
        doc="How Java checks certificates; it means nothing here.",
    )
    ssl_secure_random_implementation = setting(
        "ssl.secure.random.implementation",
        str,
        default=None,
        importance="low",
        dynamic="per-broker",
        no_effect=PROVIDERS,
        doc="Where Java gets random numbers; it means nothing here.",
    )
    ssl_engine_factory_class = setting(
        "ssl.engine.factory.class",
        CALLABLE,
        default=None,
        importance="low",
        dynamic="per-broker",
        names={},
        doc="What makes TLS connections.",
    )
    ssl_allow_dn_changes = setting(
        "ssl.allow.dn.changes",
        bool,
        default=False,
        importance="low",
        doc="Whether a new certificate may have another subject while the broker runs.",
    )
    ssl_allow_san_changes = setting(
        "ssl.allow.san.changes",
        bool,
        default=False,
        importance="low",
        doc="Whether a new certificate may lose alternative names while the broker runs.",
    )
