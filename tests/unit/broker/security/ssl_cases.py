"""Subjects of certificates and rules about them, whose answers by Java are kept in tests/golden/tls/.

`python -m tests.unit.broker.security.ssl_cases JARS` asks Java again and writes the files.
"""

from __future__ import annotations

import base64
import itertools
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).parents[3] / "golden" / "tls"
PROGRAM = Path(__file__).parents[3] / "conformance" / "SslNames.java"
UTF8, PRINTABLE, T61, IA5, BMP, UNIVERSAL, NUMERIC, BITS = 0x0C, 0x13, 0x14, 0x16, 0x1E, 0x1C, 0x12, 0x03
CN, C, L, ST, STREET, ORG, OU = "550403", "550406", "550407", "550408", "550409", "55040a", "55040b"
DC, UID, EMAIL, SERIAL = "0992268993f22c640119", "0992268993f22c640101", "2a864886f70d010901", "550405"
OWN = "2b06010401868d1f01"


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82, size >> 8, size & 255])
    return bytes([tag]) + length + content


def attribute(kind: str, value: str | bytes, tag: int = UTF8) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return der(0x30, der(0x06, bytes.fromhex(kind)) + der(tag, content))


def name(*parts: bytes | tuple[bytes, ...]) -> bytes:
    """A name; a tuple is a part with several values."""
    sets = (der(0x31, b"".join(part) if isinstance(part, tuple) else part) for part in parts)
    return der(0x30, b"".join(sets))


NAMES: list[bytes] = [
    name(),
    name(attribute(CN, "alice")),
    name(attribute(C, "DE", PRINTABLE), attribute(ORG, "Ottla"), attribute(OU, "people"), attribute(CN, "Alice B.")),
    name(attribute(DC, "com", IA5), attribute(DC, "example", IA5), attribute(UID, "u1"), attribute(CN, "x")),
    name(attribute(ST, "Hessen"), attribute(L, "Kassel"), attribute(STREET, "Ring 1"), attribute(CN, "y")),
    name(attribute(CN, "mail"), attribute(EMAIL, "a@b.example", IA5)),
    name(attribute(SERIAL, "12 34", PRINTABLE), attribute(CN, "s")),
    name(attribute(OWN, "own attribute")),
    name((attribute(CN, "two"), attribute(OU, "in one")), attribute(ORG, "z")),
    name((attribute(OU, "b"), attribute(CN, "a"), attribute(UID, "c"))),
    *(name(attribute(CN, text)) for text in ("", " ", "  a  ", "#a", "a#b", "a,b", "a+b", 'a"b', "a\\b", "a<b>c;d=e")),
    *(
        name(attribute(CN, text))
        for text in ("\0", "a\0b", "a\nb", "\ra\r", "\ta\t", "é", "日本", "😀 x", "a=b=c", "'")
    ),
    *(name(attribute(CN, text)) for text in (" #", "# ", "\\", ",", ", ", " ,", "a\\,b", "A" * 300, "a  b", "\u00a0x")),
    name(attribute(CN, "abc", PRINTABLE)),
    name(attribute(CN, "bücher".encode("latin-1"), T61)),
    name(attribute(CN, "bücher".encode("utf-16-be"), BMP)),
    name(attribute(CN, "ab".encode("utf-32-be"), UNIVERSAL)),
    name(attribute(CN, b"\xff\xfe", UTF8)),
    name(attribute(CN, "12 34", NUMERIC)),
    name(attribute(CN, b"\0\xf0", BITS)),
]

SUBJECTS = (
    "CN=Duke,OU=ServiceUsers,O=Org,C=US",
    "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
    "cn=duke,ou=sme,dc=mycp,dc=com",
    "cN=duke,OU=JavaSoft,O=Sun Microsystems",
    "OU=JavaSoft,O=Sun Microsystems,C=US",
    "CN=Tkac\\, Adam,OU=ITZ,DC=geodis,DC=cz",
    "",
    "aaa",
    "CN=Ärger,OU=x",
)
RULES = (
    "DEFAULT",
    "",
    ", ,",
    "default",
    "DEFAUL",
    "DEFAULT/L",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
    "RULE:^CN=((\\\\, *|\\w)+)(,.*|$)/$1/,DEFAULT",
    "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
    "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
    "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
    "RULE:.*/x/",
    "RULE:.*/x/U",
    "RULE:.+/x/",
    "RULE:a*/[$0]/",
    "RULE:a/b/,RULE:aaa/c/",
    "RULE:(a|aa|aaa)/<$1>/",
    "RULE:(a+?)(a*)/$2-$1/",
    "RULE:(a)(b)?(.*)/$1$2$3/",
    "RULE:(.*)/$1$4/",
    "RULE:(.*)/$12/",
    "RULE:(.*)/$4$5/",
    "RULE:(.*)/\\$1/",
    "RULE:(.*)/\\\\$1/",
    "RULE:(.*)/a\\/b/",
    "RULE:.*/$1/",
    "RULE:.*/$/",
    "RULE:.*/\\/",
    "RULE://x/",
    "RULE:(/x/",
    "RULE:^(?i)cn=([^,]*).*$/$1/",
    "RULE:^CN=(?<user>[^,]*).*$/$1/",
    "RULE:^CN=(?:[^,]*),OU=(\\w+).*$/$1/",
    "RULE:^CN=([^,]{1,4}),.*$/$1/ , RULE:^CN=(.+?),.*/$1x/L",
    "  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ",
    "RULE:\\/*\\**/**/,DEFAULT",
    "RULE:(.*),RULE:(.*)/$1/,DEFAULT",
    "RULE:^([^=]+)=([^,]+),?(.*)$/$2:$1/L",
    "RULE:^(CN=)?(.*)$/[$1][$2]/",
    "RULE:((a)|(b))*/$1$2$3/",
)


def mapped() -> list[tuple[str, str]]:
    return list(itertools.product(RULES, SUBJECTS))


def ask_java(jars: str) -> tuple[list[str], list[str]]:
    """What Java says to the names, and to the rules with every subject."""
    lines = [f"name {each.hex()}" for each in NAMES]
    lines += [f"rule {encoded(rules)} {encoded(subject)}" for rules, subject in mapped()]
    command = ["java", "-cp", jars, str(PROGRAM)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    answers = done.stdout.split("\n")[: len(lines)]
    return answers[: len(NAMES)], answers[len(NAMES) :]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kept() -> tuple[list[str], list[str]]:
    """What Java said when it was asked."""
    names, rules = ((GOLDEN / each).read_text().split("\n")[:-1] for each in ("names-jdk17.txt", "rules-4.3.1.txt"))
    return names, rules


if __name__ == "__main__":
    for found, file in zip(ask_java(sys.argv[1]), ("names-jdk17.txt", "rules-4.3.1.txt"), strict=True):
        (GOLDEN / file).write_text("".join(f"{each}\n" for each in found))
