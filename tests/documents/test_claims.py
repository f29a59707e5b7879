"""What the README and the pages count and list is what there is: commands, APIs, tools, make targets."""

from __future__ import annotations

import re
from pathlib import Path

from ottla.cli.kafka.tools import TOOLS
from ottla.cli.main import NOUNS
from ottla.protocol.api import APIS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def row(part: str) -> str:
    """The row of the README's table that is about a part."""
    found = re.search(rf"^\| `{re.escape(part)}` \|(.*)$", README, re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_readme_names_every_noun_of_the_command() -> None:
    listed = re.search(r"with the nouns (.*?) \|", row("ottla.cli"))
    assert listed is not None
    assert sorted(listed[1].split(", ")) == sorted(NOUNS)


def test_the_readme_counts_kafkas_commands_and_apis_right() -> None:
    apis = re.search(r"(\d+) APIs", row("ottla.protocol"))
    assert apis is not None
    assert int(apis[1]) == len(APIS)
    assert "`kafka-topics` and more than thirty others" in README
    assert len(TOOLS) - 1 > 30


def test_the_page_of_kafkas_commands_has_them_all_with_nouns_that_there_are() -> None:
    page = (ROOT / "docs/kafka-commands.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:kafka|zookeeper)-.*?) \|.*\|(.*)\|$", page, re.MULTILINE)
    assert sorted(name for names, _ in rows for name in names.split(", ")) == sorted(TOOLS)
    for _, ours in rows:
        words = re.findall(r"`([^`]+)`", ours)
        assert not words or words[0].startswith("ottla ")
        nouns = [word.removeprefix("ottla ").split()[0] for word in words]
        # A second word without `ottla` may be a verb of the first noun.
        assert nouns == [] or nouns[0] in NOUNS, ours


def test_what_the_readme_says_of_make_is_there() -> None:
    listed = set(re.findall(r"^make ([a-z-]+)", README, re.MULTILINE))
    there = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {"demo", "test"} <= listed <= there
    assert "`make help` lists all of them" in README
    assert "help" in there
