"""The docs site: pages from the code, links that hold, a strict build, and nothing that is fetched from elsewhere."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from website import __main__ as website
from website.pages import relinked
from website.pictures import Entry, entries_of
from website.reference import metrics_page, table

from ottla.broker.settings import BrokerSettings
from ottla.cli.main import NOUNS
from ottla.protocol.api import APIS
from ottla.storage.settings import TopicSettings

ROOT = Path(__file__).parents[2]
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "docs"
    assert website.write(folder) > 80
    return folder


def in_nav(part: object) -> list[str]:
    if isinstance(part, str):
        return [part]
    values = part.values() if isinstance(part, dict) else part
    return [name for each in values for name in in_nav(each)]  # type: ignore[attr-defined]


def test_every_page_of_the_navigation_is_there_and_every_page_can_be_found(site: Path) -> None:
    names = in_nav(CONFIG["nav"])
    assert [name for name in names if not (site / name).exists()] == []
    assert "all-pages.md" in names
    found = set(re.findall(r"\]\((.*?)\)", (site / "all-pages.md").read_text("utf-8")))
    assert {path.relative_to(site).as_posix() for path in site.rglob("*.md")} - found == {"all-pages.md"}


def test_every_link_between_pages_holds(site: Path) -> None:
    broken = []
    for path in site.rglob("*.md"):
        prose = re.sub(r"^ *```.*?^ *```$|`[^`\n]*`", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)", prose):
            if "://" not in target and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(site)}: {target}")
    assert broken == []


def test_links_to_what_is_no_page_become_names_and_code_is_left_alone() -> None:
    known = {"docs/a.md": "a.md", "ARCHITECTURE.md": "ARCHITECTURE.md", "docs/tutorials/t.md": "tutorials/t.md"}
    block = "```text\n[up](../ARCHITECTURE.md)\n```\n"
    text = "[up](../ARCHITECTURE.md#walk) [code](../src/x.py) [web](https://x.y)\n"
    found = relinked(text + block, "docs/a.md", known)
    assert found == "[up](ARCHITECTURE.md#walk) code [web](https://x.y)\n" + block
    assert relinked("[a](../a.md)", "docs/tutorials/t.md", known) == "[a](../a.md)"


def test_the_reference_has_every_setting_command_and_api(site: Path) -> None:
    broker = (site / "reference/settings-broker.md").read_text("utf-8")
    assert [each.name for each in BrokerSettings.declared() if f"| `{each.name}` |" not in broker] == []
    topic = (site / "reference/settings-topic.md").read_text("utf-8")
    assert [each.name for each in TopicSettings.declared() if f"| `{each.name}` |" not in topic] == []
    assert "none: " in broker
    assert [noun for noun in NOUNS if not (site / f"reference/commands/{noun}.md").exists()] == []
    apis = (site / "reference/apis.md").read_text("utf-8")
    assert [api.name for api in APIS.values() if f"| {api.name} |" not in apis] == []
    errors = (site / "reference/errors.md").read_text("utf-8")
    assert "| 6 | `NOT_LEADER_OR_FOLLOWER` | `NotLeaderOrFollower` | yes |" in errors
    assert "`kafka_network_requestmetrics_requests_total`" in (site / "reference/metrics.md").read_text("utf-8")
    assert "`acks`" in (site / "reference/settings-client.md").read_text("utf-8")


def test_the_drawings_are_of_the_log_that_was_written(site: Path) -> None:
    page = (site / "how-it-works/log.md").read_text("utf-8")
    assert "21 records in 6 batches" in page
    for name in ("segment.svg", "batch.svg"):
        drawing = ElementTree.fromstring((site / "how-it-works" / name).read_text("utf-8"))
        words = {each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text")}
        assert ("15..20" in words) if name == "segment.svg" else ("base offset" in words and "15" in words)


def test_index_entries_are_read_without_the_room_at_their_end() -> None:
    assert entries_of(struct.pack(">iiii", 3, 100, 0, 0), 10) == [Entry(13, 100)]


def test_tables_escape_what_would_end_a_cell() -> None:
    assert table(("a",), [("x|y\n<z>",)]) == "| a |\n| --- |\n| x\\|y &lt;z> |\n"
    page = metrics_page('# HELP m What it is.\n# TYPE m counter\nm{topic="x",b="1"} 3\n')
    assert "| `m` | counter | b, topic | What it is. |" in page


def test_the_site_is_built_strictly_and_fetches_nothing(site: Path, tmp_path: Path) -> None:
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: pip install -e '.[docs]'")
    config = tmp_path / "mkdocs.yml"
    config.write_text(yaml.safe_dump({**CONFIG, "docs_dir": str(site), "site_dir": str(tmp_path / "built")}))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(config)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    start = (tmp_path / "built" / "index.html").read_text("utf-8")
    loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"?([^\"\s>]+)", start)
    assert loaded
    assert [each for each in loaded if "://" in each] == []
    assert (tmp_path / "built" / "search" / "search_index.json").exists()
