"""Who a client is and what it may do: login (SASL), rights, tokens, and how secrets are kept.

Text never names code to be loaded: the class settings take Python objects only.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.settings.no_effect import (
    BROKER_TOKENS,
    CONFIG_PROVIDERS,
    LOGIN_CLASSES,
    PRINCIPALS,
    PROVIDERS,
    TICKET_RENEWAL,
    TOKEN_REFRESH,
)
from ottla.errors import InvalidSetting
from ottla.settings import CALLABLE, LIST, LONG, SHORT, Password, Settings, setting

AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
"""Kafka's own authorizers, of ZooKeeper and KRaft: both names mean the one that we have."""


def _authorizer_problem(value: str) -> str | None:
    if not value or value in AUTHORIZERS:
        return None
    return f"Ottla loads no classes; {' and '.join(AUTHORIZERS)} mean its own authorizer, and empty is none"


def principals(text: str) -> frozenset[str]:
    """The principals in a text with semicolons between them."""
    return frozenset(each.strip() for each in text.split(";") if each.strip())


def _principals_problem(value: str) -> str | None:
    wrong = sorted(each for each in principals(value) if ":" not in each)
    return f"write type and name of each, as in User:{wrong[0]}" if wrong else None


def _algorithm_problem(value: str) -> str | None:
    return None if value.upper() in ("ES256", "RS256") else "it must be ES256 or RS256"


def _jaas_problem(value: Password | None) -> str | None:
    """Read when it is set, whoever uses it: a login that cannot be read would be noticed when somebody needs it."""
    from ottla.net.sasl.jaas import parse_jaas

    if value is None:
        return None
    try:
        parse_jaas(value.value)
    except InvalidSetting as problem:
        return problem.detail
    return None


class SignedTokenHandler:
    """Stands for Kafka's handlers that take signed tokens; see security/token_rules.py."""


class UnsecuredTokenHandler:
    """Stands for Kafka's handler that takes tokens which nobody signed."""


_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
TOKEN_HANDLERS: Final[dict[str, object]] = {
    f"{_OAUTH}OAuthBearerValidatorCallbackHandler": SignedTokenHandler,
    f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler": SignedTokenHandler,
    f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler": UnsecuredTokenHandler,
}


class AccessSettings(Settings):
    authorizer_class_name = setting(
        "authorizer.class.name",
        str,
        default="",
        check=_authorizer_problem,
        importance="low",
        doc="What decides about rights; without it everybody may do everything.",
    )
    super_users = setting(
        "super.users",
        str,
        default="",
        check=_principals_problem,
        doc="Who may do everything, as User:name with semicolons between.",
    )
    allow_everyone_if_no_acl_found = setting(
        "allow.everyone.if.no.acl.found", bool, default=False, doc="Whether everybody may use what no rule speaks of."
    )
    principal_builder_class = setting(
        "principal.builder.class",
        CALLABLE,
        default=None,
        dynamic="per-broker",
        names={},
        no_effect=PRINCIPALS,
        doc="What makes a name of what a client showed of itself.",
    )
    config_providers = setting(
        "config.providers",
        LIST,
        default=(),
        importance="low",
        dynamic="cluster-wide",
        no_effect=CONFIG_PROVIDERS,
        doc="Where Kafka looks up values written as ${provider:path:key}; not done here, values are taken as they are.",
    )
    security_providers = setting(
        "security.providers",
        str,
        default=None,
        importance="low",
        no_effect=PROVIDERS,
        doc="Java classes for cryptography; they mean nothing here.",
    )

    # --- delegation tokens ---

    delegation_token_secret_key = setting(
        "delegation.token.secret.key",
        Password,
        default=None,
        doc="The secret that tokens are made with; the same on all brokers.",
    )
    delegation_token_master_key = setting(
        "delegation.token.master.key", Password, default=None, doc="The older name of delegation.token.secret.key."
    )
    delegation_token_max_lifetime_ms = setting(
        "delegation.token.max.lifetime.ms",
        LONG,
        default=604_800_000,
        at_least=1,
        unit="ms",
        doc="How old a token may become, however often it is renewed.",
    )
    delegation_token_expiry_time_ms = setting(
        "delegation.token.expiry.time.ms",
        LONG,
        default=86_400_000,
        at_least=1,
        unit="ms",
        doc="How long a token is good unless it is renewed.",
    )
    ottla_delegation_tokens_per_owner = setting(
        "ottla.delegation.tokens.per.owner",
        int,
        default=1_000,
        at_least=1,
        importance="low",
        doc="How many delegation tokens one user may have; above that POLICY_VIOLATION.",
    )
    delegation_token_expiry_check_interval_ms = setting(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        default=3_600_000,
        at_least=1,
        unit="ms",
        importance="low",
        doc="How often tokens that are too old are removed.",
    )

    # --- login ---

    sasl_enabled_mechanisms = setting(
        "sasl.enabled.mechanisms",
        LIST,
        default=("GSSAPI",),
        dynamic="per-broker",
        doc="Which ways to log in are offered.",
    )
    sasl_mechanism_inter_broker_protocol = setting(
        "sasl.mechanism.inter.broker.protocol",
        str,
        default="GSSAPI",
        dynamic="per-broker",
        doc="How brokers log in at each other.",
    )
    sasl_jaas_config = setting(
        "sasl.jaas.config",
        Password,
        default=None,
        check=_jaas_problem,
        dynamic="per-broker",
        doc="Users and secrets in Java's form: a module, a control flag and options.",
    )
    sasl_server_callback_handler_class = setting(
        "sasl.server.callback.handler.class",
        CALLABLE,
        default=None,
        names=TOKEN_HANDLERS,
        doc="How tokens are checked (OAUTHBEARER), by the name of one of Kafka's handlers: they must be signed, which"
        " is the default here, or nobody has to sign them.",
    )
    sasl_client_callback_handler_class = setting(
        "sasl.client.callback.handler.class",
        CALLABLE,
        default=None,
        names={},
        no_effect=LOGIN_CLASSES,
        doc="What the broker answers when it logs in elsewhere.",
    )
    sasl_login_callback_handler_class = setting(
        "sasl.login.callback.handler.class",
        CALLABLE,
        default=None,
        names={},
        no_effect=LOGIN_CLASSES,
        doc="What gets the broker's own credentials.",
    )
    sasl_login_class = setting(
        "sasl.login.class", CALLABLE, default=None, names={}, no_effect=LOGIN_CLASSES, doc="What logs the broker in."
    )
    sasl_server_max_receive_size = setting(
        "sasl.server.max.receive.size",
        int,
        default=524_288,
        unit="bytes",
        doc="The largest message that is read of a client that has not logged in yet.",
    )
    sasl_login_connect_timeout_ms = setting(
        "sasl.login.connect.timeout.ms",
        int,
        default=None,
        unit="ms",
        importance="low",
        no_effect=TOKEN_REFRESH,
        doc="How long a connection to the place that gives tokens may take.",
    )
    sasl_login_read_timeout_ms = setting(
        "sasl.login.read.timeout.ms",
        int,
        default=None,
        unit="ms",
        importance="low",
        doc="How long an answer of the place that gives tokens may take.",
    )
    sasl_login_retry_backoff_ms = setting(
        "sasl.login.retry.backoff.ms",
        LONG,
        default=100,
        unit="ms",
        importance="low",
        doc="How long to wait before asking there again, at first.",
    )
    sasl_login_retry_backoff_max_ms = setting(
        "sasl.login.retry.backoff.max.ms",
        LONG,
        default=10_000,
        unit="ms",
        importance="low",
        doc="How long to wait before asking there again, at most.",
    )
    sasl_login_refresh_window_factor = setting(
        "sasl.login.refresh.window.factor",
        float,
        default=0.8,
        dynamic="per-broker",
        no_effect=TOKEN_REFRESH,
        doc="After which part of a token's life it is renewed.",
    )
    sasl_login_refresh_window_jitter = setting(
        "sasl.login.refresh.window.jitter",
        float,
        default=0.05,
        dynamic="per-broker",
        no_effect=TOKEN_REFRESH,
        doc="How much that part varies by chance.",
    )
    sasl_login_refresh_min_period_seconds = setting(
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        default=60,
        unit="seconds",
        dynamic="per-broker",
        no_effect=TOKEN_REFRESH,
        doc="How long at least between two renewals.",
    )
    sasl_login_refresh_buffer_seconds = setting(
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        default=300,
        unit="seconds",
        dynamic="per-broker",
        no_effect=TOKEN_REFRESH,
        doc="How long before its end a token is renewed at the latest.",
    )

    # --- Kerberos ---

    sasl_kerberos_service_name = setting(
        "sasl.kerberos.service.name",
        str,
        default=None,
        dynamic="per-broker",
        doc="The service that brokers log in at with Kerberos; else serviceName of the JAAS entry, or kafka.",
    )
    sasl_kerberos_kinit_cmd = setting(
        "sasl.kerberos.kinit.cmd",
        str,
        default="/usr/bin/kinit",
        dynamic="per-broker",
        no_effect=TICKET_RENEWAL,
        doc="The command that gets a ticket.",
    )
    sasl_kerberos_ticket_renew_window_factor = setting(
        "sasl.kerberos.ticket.renew.window.factor",
        float,
        default=0.8,
        dynamic="per-broker",
        no_effect=TICKET_RENEWAL,
        doc="After which part of a ticket's life it is renewed.",
    )
    sasl_kerberos_ticket_renew_jitter = setting(
        "sasl.kerberos.ticket.renew.jitter",
        float,
        default=0.05,
        dynamic="per-broker",
        no_effect=TICKET_RENEWAL,
        doc="How much that part varies by chance.",
    )
    sasl_kerberos_min_time_before_relogin = setting(
        "sasl.kerberos.min.time.before.relogin",
        LONG,
        default=60_000,
        unit="ms",
        dynamic="per-broker",
        no_effect=TICKET_RENEWAL,
        doc="How long at least between two logins.",
    )
    sasl_kerberos_principal_to_local_rules = setting(
        "sasl.kerberos.principal.to.local.rules",
        LIST,
        default=("DEFAULT",),
        dynamic="per-broker",
        doc="Rules that make short names of Kerberos names; the first that fits counts.",
    )

    # --- OAuth ---

    ottla_oauthbearer_allowed_urls = setting(
        "ottla.oauthbearer.allowed.urls",
        LIST,
        default=(),
        importance="high",
        doc="Which addresses the broker may ask for keys and tokens, as https:// or file://; none, unless they stand"
        " here.",
    )

    sasl_oauthbearer_token_endpoint_url = setting(
        "sasl.oauthbearer.token.endpoint.url", str, default=None, doc="Where tokens are got."
    )
    sasl_oauthbearer_scope = setting(
        "sasl.oauthbearer.scope",
        str,
        default=None,
        doc="What the broker's own token should allow.",
    )
    sasl_oauthbearer_client_credentials_client_id = setting(
        "sasl.oauthbearer.client.credentials.client.id",
        str,
        default=None,
        doc="The broker's id where tokens are got.",
    )
    sasl_oauthbearer_client_credentials_client_secret = setting(
        "sasl.oauthbearer.client.credentials.client.secret",
        Password,
        default=None,
        doc="The broker's secret where tokens are got.",
    )
    sasl_oauthbearer_jwks_endpoint_url = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        str,
        default=None,
        doc="Where the keys are got that tokens are signed with.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        default=3_600_000,
        unit="ms",
        importance="low",
        doc="How often those keys are got again.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        default=100,
        unit="ms",
        importance="low",
        doc="How long to wait before getting them is tried again, at first.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        default=10_000,
        unit="ms",
        importance="low",
        doc="How long to wait before getting them is tried again, at most.",
    )
    sasl_oauthbearer_jwt_retriever_class = setting(
        "sasl.oauthbearer.jwt.retriever.class",
        CALLABLE,
        default=None,
        names={},
        no_effect=BROKER_TOKENS,
        doc="What gets tokens.",
    )
    sasl_oauthbearer_jwt_validator_class = setting(
        "sasl.oauthbearer.jwt.validator.class",
        CALLABLE,
        default=None,
        names={},
        no_effect=BROKER_TOKENS,
        doc="What checks tokens.",
    )
    sasl_oauthbearer_expected_audience = setting(
        "sasl.oauthbearer.expected.audience", LIST, default=(), importance="high", doc="Whom a token must be meant for."
    )
    sasl_oauthbearer_expected_issuer = setting(
        "sasl.oauthbearer.expected.issuer", str, default=None, importance="high", doc="Who must have made a token."
    )
    sasl_oauthbearer_clock_skew_seconds = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        int,
        default=30,
        unit="seconds",
        importance="low",
        doc="How far the clocks of maker and checker may differ.",
    )
    sasl_oauthbearer_scope_claim_name = setting(
        "sasl.oauthbearer.scope.claim.name",
        str,
        default="scope",
        importance="low",
        doc="Which claim of a token holds what it allows.",
    )
    sasl_oauthbearer_sub_claim_name = setting(
        "sasl.oauthbearer.sub.claim.name",
        str,
        default="sub",
        importance="low",
        doc="Which claim of a token holds the name.",
    )
    sasl_oauthbearer_assertion_algorithm = setting(
        "sasl.oauthbearer.assertion.algorithm",
        str,
        default="RS256",
        check=_algorithm_problem,
        no_effect=BROKER_TOKENS,
        doc="How the broker signs when it asks for a token.",
    )
    sasl_oauthbearer_assertion_claim_aud = setting(
        "sasl.oauthbearer.assertion.claim.aud",
        str,
        default=None,
        no_effect=BROKER_TOKENS,
        doc="Whom the broker's request for a token is meant for.",
    )
    sasl_oauthbearer_assertion_claim_iss = setting(
        "sasl.oauthbearer.assertion.claim.iss",
        str,
        default=None,
        no_effect=BROKER_TOKENS,
        doc="Who makes the broker's request for a token.",
    )
    sasl_oauthbearer_assertion_claim_sub = setting(
        "sasl.oauthbearer.assertion.claim.sub",
        str,
        default=None,
        no_effect=BROKER_TOKENS,
        doc="For whom the broker asks for a token.",
    )
    sasl_oauthbearer_assertion_claim_exp_seconds = setting(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        int,
        default=300,
        at_least=0,
        at_most=86_400,
        unit="seconds",
        importance="low",
        no_effect=BROKER_TOKENS,
        doc="How long the broker's request for a token is good.",
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds = setting(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        int,
        default=60,
        at_least=0,
        at_most=3600,
        unit="seconds",
        importance="low",
        no_effect=BROKER_TOKENS,
        doc="How long before it was made the broker's request for a token is already good.",
    )
    sasl_oauthbearer_assertion_claim_jti_include = setting(
        "sasl.oauthbearer.assertion.claim.jti.include",
        bool,
        default=False,
        no_effect=BROKER_TOKENS,
        doc="Whether the broker's request for a token has a number of its own.",
    )
    sasl_oauthbearer_assertion_file = setting(
        "sasl.oauthbearer.assertion.file",
        str,
        default=None,
        no_effect=BROKER_TOKENS,
        doc="A file with a signed request for a token.",
    )
    sasl_oauthbearer_assertion_template_file = setting(
        "sasl.oauthbearer.assertion.template.file",
        str,
        default=None,
        no_effect=BROKER_TOKENS,
        doc="A file with what every request says.",
    )
    sasl_oauthbearer_assertion_private_key_file = setting(
        "sasl.oauthbearer.assertion.private.key.file",
        str,
        default=None,
        no_effect=BROKER_TOKENS,
        doc="The file with the key that signs requests.",
    )
    sasl_oauthbearer_assertion_private_key_passphrase = setting(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        Password,
        default=None,
        no_effect=BROKER_TOKENS,
        doc="What opens that file.",
    )

    # --- secrets kept in ZooKeeper ---

    password_encoder_secret = setting(
        "password.encoder.secret",
        Password,
        default=None,
        doc="What secrets that are set while running are encrypted with in ZooKeeper; without it none can be set.",
    )
    password_encoder_old_secret = setting(
        "password.encoder.old.secret",
        Password,
        default=None,
        doc="What they were encrypted with before; a broker that starts with it encrypts them anew.",
    )
    password_encoder_cipher_algorithm = setting(
        "password.encoder.cipher.algorithm",
        str,
        default="AES/CBC/PKCS5Padding",
        importance="low",
        doc="How they are encrypted.",
    )
    password_encoder_keyfactory_algorithm = setting(
        "password.encoder.keyfactory.algorithm",
        str,
        default=None,
        importance="low",
        doc="How the key is made of the secret.",
    )
    password_encoder_key_length = setting(
        "password.encoder.key.length",
        int,
        default=128,
        at_least=8,
        importance="low",
        doc="How long that key is, in bits.",
    )
    password_encoder_iterations = setting(
        "password.encoder.iterations",
        int,
        default=4096,
        at_least=1024,
        importance="low",
        doc="How often the secret is hashed for it.",
    )
