"""sasl.jaas.config, Java's way to write a user and a secret in one line:

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";

One entry: a module, a control flag, options as name=value with or without double quotes, a semicolon. The module must
be one of Kafka's own and fit the mechanism. It is a word that is compared; no class is ever looked for or loaded.
Errors never show what stands there, because half of it is secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass, field

LENGTH_LIMIT: Final = 100_000
MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
_KAFKA: Final = "org.apache.kafka.common.security."
KNOWN: Final = frozenset(
    {
        *(f"{_KAFKA}plain.PlainLoginModule", f"{_KAFKA}scram.ScramLoginModule"),
        *(f"{_KAFKA}oauthbearer.OAuthBearerLoginModule", "com.sun.security.auth.module.Krb5LoginModule"),
    }
)
_SHADED: Final = "kafkashaded."
"""Where Kafka's classes are packed under another name, as in Databricks."""
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(r'\s*(?:"((?:\\.|[^"\\])*)"|([^\s"=;]+)|([=;]))', re.DOTALL)
_FORM: Final = 'it must be: <module> required username="..." password="...";'


@dataclass(frozen=True)
class JaasEntry:
    """One login module and its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def kind(self) -> str:
        """The module without its package: PlainLoginModule, ScramLoginModule, ..."""
        return self.module.rpartition(".")[2]


def parse_jaas(text: str) -> JaasEntry:
    """Read the entry; InvalidSetting says what is wrong with its form."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (";", False):
        raise InvalidSetting(f"sasl.jaas.config does not end with a semicolon or is empty; {_FORM}")
    if tokens.count((";", False)) > 1:
        raise InvalidSetting(f"sasl.jaas.config has more than one login module; {_FORM}")
    (module, _), (flag, _), *pairs = tokens[:-1]
    if module.removeprefix(_SHADED) not in KNOWN:
        raise InvalidSetting(f"sasl.jaas.config names a module that is not known; there is {', '.join(sorted(KNOWN))}")
    if flag.lower() not in _FLAGS:
        raise InvalidSetting(f"sasl.jaas.config has no control flag behind the module; {_FORM}")
    if len(pairs) % 3 or any(pair != ("=", False) for pair in pairs[1::3]):
        raise InvalidSetting(f"sasl.jaas.config has an option that is not name=value; {_FORM}")
    return JaasEntry(module, {pairs[at][0]: pairs[at + 2][0] for at in range(0, len(pairs), 3)})


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Words and signs; the flag says whether a word stood in quotes, where "=" and ";" are ordinary."""
    found: list[tuple[str, bool]] = []
    position, end = 0, len(text.rstrip())
    if end > LENGTH_LIMIT:
        raise InvalidSetting(f"sasl.jaas.config is longer than {LENGTH_LIMIT} characters")
    while position < end:
        match = _TOKEN.match(text, position, end)
        if match is None:
            raise InvalidSetting(f"sasl.jaas.config has a quote that does not end; {_FORM}")
        quoted, word, sign = match.groups()
        found.append(
            (re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL), True) if quoted is not None else (word or sign, False)
        )
        position = match.end()
    return found
