"""Names of Kerberos to short names, by the rules of sasl.kerberos.principal.to.local.rules (Hadoop's auth_to_local).

    DEFAULT                                     alice@REALM and alice/host@REALM of our own realm become alice
    RULE:[2:$1-$2](app-.*)s/-.*//L              name/host joined as name-host, if it fits the pattern, then changed

1. A rule is for names with so many parts: 1 is alice@REALM, 2 is alice/host@REALM. $0 is the realm, $1 and $2 the
   parts.
2. The first rule that fits decides; when none does, nobody is logged in.
3. A short name has neither / nor @; a rule that leaves one is refused when it happens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass
from ottla.net.sasl.server import LoginRefused

_NAME: Final = re.compile(r"([^/@]+)(?:/([^/@]*))?@([^/@]+)")
_RULE: Final = re.compile(
    r"RULE:\[(?P<parts>[12]):(?P<form>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_JAVA_GROUP: Final = re.compile(r"\$(\d)")


@dataclass(frozen=True)
class _Rule:
    parts: int
    form: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    count: int
    case: str | None

    def apply(self, values: Sequence[str]) -> str | None:
        """The short name; None when the rule is not for this name."""
        if len(values) != self.parts + 1:
            return None
        name = _JAVA_GROUP.sub(lambda found: values[int(found[1])] if int(found[1]) < len(values) else "", self.form)
        if self.match is not None and not self.match.fullmatch(name):
            return None
        if self.pattern is not None:
            name = self.pattern.sub(self.replacement, name, count=self.count)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class ShortNames:
    """The rules of one listener; `realm` is our own."""

    def __init__(self, rules: Sequence[str], realm: str) -> None:
        self._realm = realm
        self._rules = [_read(each) for each in rules]

    def of(self, full_name: str) -> str:
        """The short name; LoginRefused when no rule fits."""
        found = _NAME.fullmatch(full_name)
        if found is None:
            raise LoginRefused(f"{full_name!r} is no name of Kerberos")
        primary, host, realm = found.groups()
        values = [realm, primary] if host is None else [realm, primary, host]
        for rule in self._rules:
            short = self._default(primary, realm) if rule is None else rule.apply(values)
            if short is None:
                continue
            if not short or "/" in short or "@" in short:
                raise LoginRefused(f"a rule makes {short!r} of {full_name!r}, which is no short name")
            return short
        raise LoginRefused(f"no rule of sasl.kerberos.principal.to.local.rules is for {full_name!r}")

    def _default(self, primary: str, realm: str) -> str | None:
        return primary if realm == self._realm else None


def _read(text: str) -> _Rule | None:
    """A rule; None is DEFAULT."""
    if text == "DEFAULT":
        return None
    found = _RULE.fullmatch(text)
    if found is None:
        raise InvalidSetting(f"sasl.kerberos.principal.to.local.rules has {text!r}, which is no rule")
    try:
        match, pattern = (None if found[name] is None else re.compile(found[name]) for name in ("match", "pattern"))
    except re.error as error:
        raise InvalidSetting(f"sasl.kerberos.principal.to.local.rules has {text!r}: {error}") from None
    replacement = _JAVA_GROUP.sub(r"\\\1", found["replacement"] or "")
    count = 0 if found["all"] else 1
    return _Rule(int(found["parts"]), found["form"], match, pattern, replacement, count, found["case"])
