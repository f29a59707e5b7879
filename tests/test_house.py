"""The rules of the house that a machine can check."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.application.use_cases import lint_imports, read_user_options
from importlinter.configuration import configure

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# What `import ottla` must not load: it would be paid by everybody who only wanted one part.
HEAVY = ("asyncio", "uvloop", "lz4", "zstandard", "cramjam", "crc32c", "pyarrow", "pyspark", "kazoo", "hypothesis")


def test_imports_go_down_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The contracts stand in pyproject.toml under [tool.importlinter]."""
    monkeypatch.chdir(ROOT)
    configure()
    kept = lint_imports(config_filename="pyproject.toml", cache_dir=None)
    assert kept, capsys.readouterr().out


def test_every_room_is_in_the_contracts() -> None:
    """A room that nobody listed would be a room without walls."""
    configure()
    options = read_user_options(config_filename=str(ROOT / "pyproject.toml"))
    layers = "\n".join(next(c["layers"] for c in options.contracts_options if c["type"] == "layers"))
    names = [path.name for path in (ROOT / "src/ottla").iterdir()]
    rooms = {name.removesuffix(".py") for name in names if not name.startswith(("_", "."))}
    rooms -= {"py.typed", "demo"}
    missing = {room for room in rooms if f"ottla.{room}" not in layers}
    assert not missing, f"name these in the layers of pyproject.toml: {sorted(missing)}"


@pytest.mark.parametrize("module", ["ottla", "ottla.records", "ottla.protocol"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []


def test_every_file_opens_with_its_story() -> None:
    silent = [str(path.relative_to(ROOT)) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == [], "a module starts with what it is for"


FULL_CLASSES = re.compile(r"^from (?:dataclasses import .*\bdataclass\b|typing import .*\bNamedTuple\b)", re.MULTILINE)


def test_classes_cost_little_to_declare() -> None:
    """Spark is slow to start anyway; everything else is loaded by brokers and commands that must be quick."""
    ours = [path for path in SOURCES if "spark" not in path.parts and not path.name.startswith("light_")]
    heavy = [str(path.relative_to(ROOT)) for path in ours if FULL_CLASSES.search(path.read_text())]
    assert not heavy, f"take dataclass from ottla.light_dataclasses and NamedTuple from ottla.light_tuples: {heavy}"


# Time and tasks come in by ottla.clock and ottla.tasks (docs/decisions/0036): so a virtual clock can run everything.
TIMED_ROOMS = ("broker", "client", "cluster")
# Direct uses that are still there, by file. The list only gets shorter; a file that has none left is taken off it.
TIME_EXCEPTIONS = {
    "broker/observe/admin_http.py": 2,
    "cluster/store/zookeeper/server.py": 3,
}


def time_uses(path: Path) -> list[str]:
    """Where a file asks the system or the event loop for time, instead of the clock it was given."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            found.append(f"{node.lineno}: from time import")
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, name = ast.unparse(node.func.value), node.func.attr
        if (
            (owner == "time" and name not in ("strftime", "gmtime", "localtime"))
            or (owner == "asyncio" and name in ("sleep", "wait_for", "timeout", "timeout_at"))
            or (owner == "asyncio" and name == "wait" and any(each.arg == "timeout" for each in node.keywords))
            or (name in ("call_later", "call_at") and "clock" not in owner.lower())
            or (name == "time" and "loop" in owner)
        ):
            found.append(f"{node.lineno}: {owner}.{name}()")
    return found


@pytest.mark.parametrize("room", TIMED_ROOMS)
def test_time_comes_in_by_the_clock(room: str) -> None:
    for path in sorted((ROOT / "src/ottla" / room).rglob("*.py")):
        name = str(path.relative_to(ROOT / "src/ottla"))
        uses, allowed = time_uses(path), TIME_EXCEPTIONS.get(name, 0)
        assert len(uses) <= allowed, f"{name} must use its clock (ottla.clock), not {uses}"
        assert uses or name not in TIME_EXCEPTIONS, f"{name} needs no exception any more: delete its line"


def test_the_check_of_time_finds_what_it_is_for(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(
        "import time, asyncio\nfrom time import sleep\n"
        "time.monotonic(); asyncio.sleep(1); asyncio.wait([], timeout=1); loop.call_later(1, f); loop.time()\n"
        "self._clock.call_later(1, f); clock.sleep(1); asyncio.wait([])\n"
    )
    assert len(time_uses(path)) == 6


def test_the_walk_of_a_record_names_files_that_are_there_and_none_twice() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `([^`]+)` \|", text.split("## The walk of a record")[1].split("\n## ")[0], re.M)
    files = [name for _, name in rows]
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(set(files)) == len(files)
    assert 40 < len(files) <= 45, "who reads them in one sitting has no time for more"
    assert [name for name in files if not (ROOT / "src/ottla" / name).exists()] == []


def missing_names(text: str) -> list[str]:
    """Files that a text names and that are nowhere. A path may begin at the root, in ottla or in any folder below."""
    known = [path.as_posix() for folder in ("src", "tests", "docs") for path in (ROOT / folder).rglob("*.*")]
    named = sorted({each for each in re.findall(r"(?<![\w/*])[\w/]+\.(?:pyx?|md)\b", text) if "weather" not in each})
    return [name for name in named if not any(each.endswith(f"/{name}") for each in known)]


def test_every_file_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert missing_names(text) == []
    assert missing_names("`net/transport.py`, `server.py`, `broker/gone.py`") == ["broker/gone.py"]


# -- words ------------------------------------------------------------------------------------------------------------

# Words of a private dialect. Kafka and asyncio have verbs for all of these: notify, complete, accept, read, check.
DIALECT = re.compile(r"(^|_)(told|tells?|given|taken|looks?|settled?)(_|$)")
# The native twin of these files has the same names; they go when that is next changed.
DIALECT_EXCEPTIONS = {"client/producer/batches/delivery.py": {"tell", "told"}}


def names_in(path: Path) -> Iterator[str]:
    """Every name that a file makes."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_names_are_not_a_private_dialect() -> None:
    found = {}
    for path in sorted((ROOT / "src/ottla").rglob("*.py")):
        name = str(path.relative_to(ROOT / "src/ottla"))
        words = {each for each in names_in(path) if DIALECT.search(each.replace("look_up", ""))}
        if words := words - DIALECT_EXCEPTIONS.get(name, set()):
            found[name] = words
    assert found == {}


# -- the broker -------------------------------------------------------------------------------------------------------

BROKER_SOURCES = sorted((ROOT / "src/ottla/broker").rglob("*.py"))
# The number only gets smaller.
ANY_LIMIT = 53
FUNCTION_LINES_LIMIT = 60
# What waits in the broker awaits a future of this file; requests/running.py documents its `on_done`.
THE_ONE_WAIT = "waiting/purgatory.py"
EARLIER_WAITS = frozenset({"later", "longlater", "steps", "askingagain", "gather"})
DOCUMENTED_CALLBACKS = {"requests/running.py": {"on_done"}}


def test_types_in_the_broker_are_real_types() -> None:
    """Counted as `grep -w Any` counts: imports and sentences too."""
    uses = [str(path) for path in BROKER_SOURCES for _ in re.findall(r"\bAny\b", path.read_text())]
    assert len(uses) <= ANY_LIMIT, f"{len(uses)} times Any in broker/: give these a type"


def other_waits(path: Path, name: str) -> list[str]:
    """Where a file begins another protocol of waiting than `await` on a future."""
    if name == THE_ONE_WAIT:
        return []
    allowed = DOCUMENTED_CALLBACKS.get(name, set())
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ClassDef):
            continue
        if node.name.lower().strip("_") in EARLIER_WAITS:
            found.append(f"class {node.name}")
        functions = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        found += [f"{node.name}.{each.name}()" for each in functions if re.match(r"_*(when_|give$)", each.name)]
        stores = [each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and is_stored_on_self(each)]
        found += [
            f"{node.name}.{each}" for each in stores if re.match(r"_*(on_|when_|give$)", each) and each not in allowed
        ]
    return found


def is_stored_on_self(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


def test_there_is_one_way_to_wait_in_the_broker() -> None:
    """Docs: ARCHITECTURE.md. A handler awaits; nobody hands callbacks to whoever will have the answer."""
    for path in BROKER_SOURCES:
        name = str(path.relative_to(ROOT / "src/ottla/broker"))
        assert path.stem.replace("_", "") not in EARLIER_WAITS, f"{name}: await a future instead"
        assert other_waits(path, name) == [], f"{name}: await a future (waiting/purgatory.py) instead"


def lookalikes_of_futures(path: Path) -> list[str]:
    """Classes that are resolved as a future is, beside asyncio's."""
    return [
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and {"done", "set_result"} <= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    ]


def callers_of(method: str) -> set[str]:
    """Files of the broker that call a method of this name."""
    return {
        str(path.relative_to(ROOT / "src/ottla/broker"))
        for path in BROKER_SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
    }


def test_a_produce_has_one_way() -> None:
    """One queue, one append, one pending answer (decision 0242)."""
    found = {name for path in BROKER_SOURCES for name in lookalikes_of_futures(path)}
    # What a follower asks is written and answered by its connection, as the client's requests are (net/connection.py).
    assert found == {"CopyQuestion"}
    assert callers_of("append_queued") == {"produce/writer.py", "replication/partition.py"}
    assert callers_of("append_run") - {"replication/partition.py"} == {"replication/writes.py"}
    assert callers_of("append_batch") == {"replication/partition.py", "replication/writes.py"}
    assert callers_of("hold") & {"produce/writer.py"} == {"produce/writer.py"}


def test_the_check_of_waits_finds_what_it_is_for(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(
        "class Later:\n"
        "    def __init__(self, then): self._on_answer = then\n"
        "    def when_done(self, then): ...\n"
        "    def give(self, answer): ...\n"
        "    def configured_names(self): ...\n"
    )
    assert other_waits(path, "bad.py") == ["class Later", "Later.when_done()", "Later.give()", "Later._on_answer"]


def test_functions_of_the_broker_fit_on_a_screen() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in BROKER_SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES_LIMIT
    ]
    assert long == []
