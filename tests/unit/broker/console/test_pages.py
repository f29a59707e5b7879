"""The files of the page: all of them are packed, and none fetches or says anything that the policy would refuse."""

import re
import tomllib
from pathlib import Path

from ottla.broker.console.pages import STATIC, TYPES, page_routes

ROOT = Path(__file__).parents[4]
MARKUP = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc")
FILES = [path for path in STATIC.rglob("*") if path.is_file()]


def test_every_file_is_packed_and_served():
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    found = {
        path for pattern in packed["ottla.broker.console"] for path in STATIC.parent.glob(pattern) if path.is_file()
    }
    assert found == set(FILES)
    served = [route for route in page_routes() if "{" not in route.path]
    assert len(served) == len([path for path in FILES if path.suffix in TYPES]) == len(FILES) > 15


def test_the_version_is_another_when_any_file_is(tmp_path):
    for name in ("index.html", "app.js"):
        (tmp_path / name).write_text("one")
    before = [route.path for route in page_routes(tmp_path)]
    assert before == [route.path for route in page_routes(tmp_path)]
    (tmp_path / "app.js").write_text("two")
    assert before != [route.path for route in page_routes(tmp_path)]


def test_nothing_is_fetched_from_elsewhere_and_nothing_stands_in_markup():
    for path in FILES:
        text = path.read_text()
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "srcdoc",
        ):
            assert word not in text, f"{path.name}: {word}"
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"\son\w+=|style=|<script>", page)


def test_every_module_that_is_imported_is_there():
    for path in FILES:
        if path.suffix == ".js":
            for name in re.findall(r"(?:from |import\()\"(\.[^\"]+)\"", path.read_text()):
                assert (path.parent / name).resolve().exists(), f"{path.name} imports {name}"
    routed = re.findall(r"^  (\w+): \{ title", (STATIC / "app.js").read_text(), re.MULTILINE)
    assert len(routed) > 8
    assert [name for name in routed if not (STATIC / "pages" / f"{name}.js").exists()] == []
