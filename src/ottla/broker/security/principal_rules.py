"""ssl.principal.mapping.rules: the subject of a certificate becomes a user's name, exactly as in Java.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=([^,]+),.*$/$1/, DEFAULT

1. The first rule whose pattern matches the whole subject makes the name; DEFAULT takes the subject as it is. When none
   fits, the connection is refused.
2. What matches is replaced as by Java's replaceAll: everywhere, $1 for groups, a backslash before a literal character,
   and a $4 without a fourth group stays as it is (where the pattern has groups at all).
3. Patterns have RE2's syntax, which is Java's without look-around, back references and possessive repeats: these are
   refused at the start, because a subject that somebody chose could make them run for hours.
4. A subject is at most SUBJECT_LIMIT characters, and matching it has a bound (patterns/captures.py).
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from ottla.errors import InvalidRegularExpression, InvalidSetting, TlsHandshakeFailed
from ottla.light_tuples import NamedTuple
from ottla.patterns.captures import CapturingPattern, Spans, TooMuchWork

SETTING: Final = "ssl.principal.mapping.rules"
SUBJECT_LIMIT: Final = 4_096
_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_DIGITS: Final = "0123456789"

Template: TypeAlias = tuple[str | int, ...]
"""What a match is replaced with: texts, and the numbers of groups."""


class Rule(NamedTuple):
    """`pattern` None is DEFAULT."""

    pattern: CapturingPattern | None = None
    template: Template = ()
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """The name, or None when the rule does not fit."""
        if self.pattern is None:
            return subject
        if self.pattern.match(subject) is None:
            return None
        name = _replaced(subject, self.pattern.find_all(subject), self.template)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class PrincipalRules:
    def __init__(self, text: str) -> None:
        """InvalidSetting when a rule cannot be read."""
        self._rules = parse_rules(text)

    def name_of(self, subject: str) -> str:
        """The user of a subject; TlsHandshakeFailed when no rule fits."""
        if len(subject) > SUBJECT_LIMIT:
            raise TlsHandshakeFailed(f"the subject has {len(subject)} characters; the limit is {SUBJECT_LIMIT}")
        for rule in self._rules:
            try:
                name = rule.apply(subject)
            except TooMuchWork:
                raise TlsHandshakeFailed(f"a rule of {SETTING} takes too long on {subject[:100]!r}") from None
            if name is not None:
                return name
        raise TlsHandshakeFailed(f"no rule of {SETTING} fits {subject!r}")


# --- reading rules ---------------------------------------------------------------------------------------------------


def parse_rules(text: str) -> list[Rule]:
    """The rules of the setting; empty ones are nothing."""
    rules: list[Rule] = []
    position, text = 0, text.strip()
    while position < len(text):
        rule, position = _next_rule(text, position)
        if rule is not None:
            rules.append(rule)
    return rules


def _next_rule(text: str, position: int) -> tuple[Rule | None, int]:
    """The rule that begins there, None when it is empty, and where the next one begins."""
    while text[position : position + 1].isspace():
        position += 1
    begin, rule = position, None
    if text.startswith("RULE:", position):
        pattern, position = _part(text, position + len("RULE:"))
        replacement, position = _part(text, position)
        if pattern is not None and replacement is not None:
            case = text[position : position + 1] if text[position : position + 1] in ("L", "U") else ""
            position += len(case)
            rule = _make_rule(pattern, replacement, case, text[begin:position])
        else:
            position = begin
    elif text.startswith("DEFAULT", position):
        rule, position = Rule(), position + len("DEFAULT")
    comma = text.find(",", position)
    end = len(text) if comma < 0 else comma
    if text[position:end].strip():
        raise InvalidSetting(
            f"{SETTING} has {text[begin:end].strip()!r}; write RULE:pattern/replacement/, with L or U behind it for "
            "small or capital letters, or DEFAULT, and commas between"
        )
    return rule, end + 1


def _part(text: str, position: int) -> tuple[str | None, int]:
    """The text up to a slash without a backslash before it, and where it goes on; None when there is none."""
    begin = position
    while position < len(text):
        if text[position] == "/":
            return text[begin:position], position + 1
        position += 2 if text[position] == "\\" else 1
    return None, len(text)


def _make_rule(pattern: str, replacement: str, case: str, rule: str) -> Rule:
    try:
        made = CapturingPattern(pattern)
        template = _parse_replacement(_escape_unknown_groups(replacement, made.group_count), made.group_count)
    except (InvalidRegularExpression, ValueError) as problem:
        why = problem.detail if isinstance(problem, InvalidRegularExpression) else problem
        raise InvalidSetting(f"{SETTING} has {rule!r}, which cannot be used: {why}") from None
    return Rule(made, template, case)


def _escape_unknown_groups(replacement: str, group_count: int) -> str:
    """A backslash before every reference to a group that is not there. Java finds the places in the text as it was and
    inserts into the text as it is by then, so from the second on they are off by one each: so they are here."""
    if not group_count:
        return replacement
    escaped = replacement
    for found in _REFERENCE.finditer(replacement):
        if found[1].startswith("0"):
            continue
        number = int(found[1])
        while number > group_count and number >= 10:
            number //= 10
        if number > group_count:
            escaped = f"{escaped[: found.start()]}\\{escaped[found.start() :]}"
    return escaped


def _parse_replacement(text: str, group_count: int) -> Template:
    """Java's replacement texts; ValueError says what is wrong."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "$":
            number, position = _group_number(text, position, group_count)
            parts.append(number)
            continue
        if char == "\\":
            if position == len(text):
                raise ValueError("the replacement ends with a backslash")
            char = text[position]
            position += 1
        parts.append(char)
    return tuple(parts)


def _group_number(text: str, position: int, group_count: int) -> tuple[int, int]:
    """As many digits as make the number of a group that is there."""
    first = text[position : position + 1]
    if not first or first not in _DIGITS:
        raise ValueError("a $ in the replacement needs the number of a group; write \\$ for the character")
    number, position = int(first), position + 1
    if number > group_count:
        raise ValueError(f"there is no group {number}")
    while (digit := text[position : position + 1]) and digit in _DIGITS and number * 10 + int(digit) <= group_count:
        number, position = number * 10 + int(digit), position + 1
    return number, position


def _replaced(text: str, matches: list[Spans], template: Template) -> str:
    parts: list[str] = []
    position = 0
    for spans in matches:
        parts.append(text[position : spans[0]])
        for part in template:
            if isinstance(part, str):
                parts.append(part)
            elif spans[2 * part] >= 0:
                parts.append(text[spans[2 * part] : spans[2 * part + 1]])
        position = spans[1]
    return "".join([*parts, text[position:]])
