"""A listener's ssl.* settings as options for TLS (net/tls)."""

from __future__ import annotations

from ottla.broker.settings import BrokerSettings
from ottla.errors import InvalidSetting
from ottla.net.tls.options import TlsOptions, wanted_versions
from ottla.settings import Password, Source


def tls_options(settings: BrokerSettings, listener: str, protocol: str) -> TlsOptions:
    """What the settings say of one listener; its own values win over the plain ones."""
    own = settings.for_listener(listener)
    if own.ssl_engine_factory_class is not None:
        raise InvalidSetting("ssl.engine.factory.class cannot be used: TLS is Python's; remove it")
    return TlsOptions(
        ca_location=own.ssl_truststore_location,
        ca_text=_value(own.ssl_truststore_certificates),
        ca_type=_if_set(own, "ssl.truststore.type", own.ssl_truststore_type),
        ca_password=_value(own.ssl_truststore_password),
        store_location=own.ssl_keystore_location,
        store_type=_if_set(own, "ssl.keystore.type", own.ssl_keystore_type),
        store_password=_value(own.ssl_keystore_password),
        certificate_text=_value(own.ssl_keystore_certificate_chain),
        key_text=_value(own.ssl_keystore_key),
        key_password=_value(own.ssl_key_password),
        check_hostname=_checks_names(own.ssl_endpoint_identification_algorithm),
        client_auth=_client_auth(settings, own, listener, protocol),
        versions=wanted_versions(own.ssl_enabled_protocols, own.ssl_protocol),
        ciphers=own.ssl_cipher_suites,
    )


def _client_auth(settings: BrokerSettings, own: BrokerSettings, listener: str, protocol: str) -> str:
    """On SASL_SSL the login says who somebody is; as in Kafka a certificate is asked for only by the listener's own
    setting."""
    is_own = f"listener.name.{listener.lower()}.ssl.client.auth" in settings.listener_values()
    return own.ssl_client_auth if protocol == "SSL" or is_own else "none"


def _checks_names(algorithm: str) -> bool:
    if algorithm.lower() not in ("https", ""):
        raise InvalidSetting(f"ssl.endpoint.identification.algorithm={algorithm}; there is https, or an empty text")
    return algorithm != ""


def _if_set(own: BrokerSettings, name: str, value: str) -> str | None:
    """Kafka's default, JKS, says nothing about the file that is there; what somebody set does."""
    return None if own.source(name) is Source.DEFAULT else value


def _value(secret: Password | None) -> str | None:
    return None if secret is None else secret.value
