"""What people start Ottla with: container, compose and systemd files, installer, wheels and source package."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from http import HTTPStatus
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from tests.conformance.our_broker import free_ports
from tests.hasty_compiler import hasty_compiler
from tests.patience import HANG_S

from ottla.broker.settings import BrokerSettings
from ottla.cli import health
from ottla.cli.commands.broker import read_settings
from ottla.cli.health import ADMIN_ADDRESS
from ottla.cli.main import make_parser
from ottla.cli.output import FAILED, OK, Failure

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
CONTAINER = (PACKAGING / "Containerfile").read_text("utf-8").replace("\\\n", " ")
COMPOSE = yaml.safe_load((PACKAGING / "compose.yml").read_text("utf-8"))
UNIT = (PACKAGING / "ottla.service").read_text("utf-8")


def container_words(instruction: str) -> list[str]:
    found = re.search(rf"^(?:HEALTHCHECK .*)?{instruction} (\[.*\])$", CONTAINER, re.MULTILINE)
    assert found is not None
    words: list[str] = json.loads(found[1])
    return words


def parsed(words: list[str]) -> object:
    """What our own parser makes of the words; it ends the test when it does not know them."""
    return make_parser(words).parse_args(words)


# --- containers ------------------------------------------------------------------------------------------------------


def test_the_container_copies_what_is_there_and_its_words_are_commands() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINER, re.MULTILINE)
    assert copied
    assert [name for line in copied for name in line.split() if not (ROOT / name).exists()] == []
    assert container_words("ENTRYPOINT") == ["ottla"]
    settings, notes = read_settings(parsed(container_words("CMD")), {})  # type: ignore[arg-type]
    assert notes == []
    assert "0.0.0.0:9092" in str(settings.listeners)


def test_the_health_check_asks_where_the_broker_answers() -> None:
    words = re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", CONTAINER, re.MULTILINE)
    assert words is not None
    options = parsed(json.loads(words[1])[1:])
    assert health.asked_address(options, {}) == ADMIN_ADDRESS  # type: ignore[arg-type]
    host, port = BrokerSettings({}).admin_address or ("", 0)
    assert f"{host}:{port}" == ADMIN_ADDRESS


def test_the_health_check_follows_the_settings_of_the_broker(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("ottla.admin.listener=127.0.0.1:9700\n")

    def asked(*words: str, **environment: str) -> str:
        return health.asked_address(parsed(["broker", "health", *words]), environment)  # type: ignore[arg-type]

    assert asked("--config", str(file)) == "127.0.0.1:9700"
    assert asked("--config", str(file), OTTLA_ADMIN_LISTENER="0.0.0.0:9701") == "0.0.0.0:9701"
    assert asked("--admin", "kafka:9702", OTTLA_ADMIN_LISTENER="0.0.0.0:9701") == "kafka:9702"
    file.write_text("ottla.admin.listener=\n")
    with pytest.raises(Failure, match="answers no questions about its health"):
        asked("--config", str(file))
    with pytest.raises(Failure, match="Check the path after --config"):
        asked("--config", str(tmp_path / "none"))


def test_services_of_the_compose_file_have_commands_and_settings_of_ours() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        parsed(list(map(str, service["command"])))
    kafka = services["kafka"]
    assert kafka["healthcheck"]["test"] == ["CMD", "ottla", "broker", "health"]
    assert (PACKAGING / kafka["build"]["context"] / kafka["build"]["dockerfile"]).exists()
    settings, notes = read_settings(parsed(kafka["command"]), kafka["environment"])  # type: ignore[arg-type]
    assert notes == []
    assert {str(each).partition(":")[0] for each in settings.listeners} == {"INSIDE", "OUTSIDE"}
    over_http = [each for each in (settings.admin_address, settings.schema_registry_address) if each is not None]
    served = {*(each.port for each in settings.endpoints), *(port for _, port in over_http)}
    published = [each.split(":") for each in kafka["ports"]]
    assert {host for host, _, _ in published} == {"127.0.0.1"}, "nobody else may reach what asks for no login"
    assert {int(inside) for _, _, inside in published} <= served
    assert services["topics"]["depends_on"]["kafka"]["condition"] == "service_healthy"


def test_a_broker_that_is_started_as_in_the_container_is_healthy_until_it_stops(tmp_path: Path) -> None:
    listen, admin = (f"127.0.0.1:{port}" for port in free_ports(2))
    words = container_words("CMD")
    words[words.index("--data") + 1] = str(tmp_path)
    words[words.index("--listen") + 1] = listen
    words[words.index("--set") + 1] = f"advertised.listeners=PLAINTEXT://{listen}"
    command = [sys.executable, "-m", "ottla"]
    health = [*command, "broker", "health", "--admin", admin]
    environment = {**os.environ, "OTTLA_ADMIN_LISTENER": admin}
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True, env=environment) as broker:
        assert broker.stdout is not None
        try:
            assert "is ready at" in broker.stdout.readline()
            done = subprocess.run(health, capture_output=True, text=True, timeout=HANG_S, check=False)
            assert (done.returncode, done.stdout, done.stderr) == (OK, "ready\n", "")
            assert (
                subprocess.run([*health, "--live"], capture_output=True, timeout=HANG_S, check=False).returncode == OK
            )
        finally:
            broker.terminate()
        assert broker.wait(HANG_S) == OK
    done = subprocess.run(health, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == FAILED
    assert done.stderr.startswith(f"ottla: nothing answers at {admin}")


def test_the_container_builds_with_extras_that_there_are() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = {name for found in re.findall(r"\[([a-z,]+)\]'", CONTAINER) for name in found.split(",")}
    assert named
    assert named <= set(extras)


@pytest.mark.long
def test_what_the_container_copies_is_enough_to_build_the_native_wheel(tmp_path: Path) -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINER, re.MULTILINE)
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = tuple(name for line in copied for name in line.split())
    for name in tracked.splitlines():
        if name in wanted or name.startswith("src/"):
            (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "src" / name)
    words = ["pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path / "wheels"), "."]
    environment = {**os.environ, **hasty_compiler(tmp_path), "OTTLA_BUILD_NATIVE": "1"}
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=tmp_path / "src", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    assert "none-any" not in wheel.name, "the leaves were not built"


@pytest.mark.long
def test_the_services_of_the_compose_file_work_together(tmp_path: Path) -> None:
    """As processes of this machine: other addresses and another directory, and nothing else of it is changed."""
    inside, outside, admin, registry = free_ports(4)
    places = {
        "0.0.0.0:9092": f"127.0.0.1:{inside}",
        "kafka:9092": f"127.0.0.1:{inside}",
        "/var/lib/ottla": str(tmp_path),
    }
    places |= {"0.0.0.0:9094": f"127.0.0.1:{outside}", "localhost:9094": f"127.0.0.1:{outside}"}
    places |= {"0.0.0.0:9644": f"127.0.0.1:{admin}", "0.0.0.0:8081": f"127.0.0.1:{registry}"}

    def here(text: object) -> str:
        found = str(text)
        for before, after in places.items():
            found = found.replace(before, after)
        return found

    kafka, topics = COMPOSE["services"]["kafka"], COMPOSE["services"]["topics"]
    settings = {name: here(text) for name, text in kafka["environment"].items()}
    environment = {**os.environ, **settings}
    program = [sys.executable, "-m", "ottla"]
    start = [*program, *map(here, kafka["command"])]
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True, env=environment) as broker:
        assert broker.stdout is not None
        try:
            assert "is ready at" in broker.stdout.readline()
            subprocess.run([*program, *map(here, topics["command"])], check=True, timeout=HANG_S)
            listed = [*program, "topic", "list", "--bootstrap-server", f"127.0.0.1:{outside}"]
            assert "clicks" in subprocess.run(listed, capture_output=True, text=True, timeout=HANG_S, check=True).stdout
            for address in (f"{admin}/health/ready", f"{admin}/", f"{registry}/subjects"):
                with urllib.request.urlopen(f"http://127.0.0.1:{address}", timeout=HANG_S) as answer:
                    assert answer.status == HTTPStatus.OK
        finally:
            broker.terminate()
        assert broker.wait(HANG_S) == OK


# --- systemd ---------------------------------------------------------------------------------------------------------


def test_the_unit_starts_the_broker_with_words_that_it_knows() -> None:
    start = re.search(r"^ExecStart=\S+/ottla (.*)$", UNIT, re.MULTILINE)
    assert start is not None
    started = parsed(shlex.split(start[1]))
    asked = re.search(r"^ExecStartPost=.*/ottla (broker health[^;]*);", UNIT, re.MULTILINE)
    assert asked is not None
    assert getattr(parsed(shlex.split(asked[1])), "config", None) == getattr(started, "config", ()), "another file"


def test_systemd_knows_every_word_of_the_unit() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = str(PACKAGING / "ottla.service")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    faults = [line for line in done.stderr.splitlines() if "ottla.service" in line and "is not executable" not in line]
    assert faults == []


# --- the installer ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def install() -> ModuleType:
    spec = spec_from_file_location("packaging_install", PACKAGING / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("line", "text", "doing"),
    [
        ("Collecting pyspark>=4.0 (from ottla==0.1.0)\n", None, "looking for pyspark"),
        ("  Downloading pyspark-4.2.0.tar.gz (434.1 MB)\n", "downloading pyspark, 434.1 MB", "downloading pyspark"),
        ("  Downloading lz4-4.4.5-cp311-cp311-manylinux.whl (1.2 MB)\n", None, "getting lz4"),
        ("  Using cached pyspark-4.3.0-py2.py3-none-any.whl\n", None, "getting pyspark"),
        ("  Building wheel for pyspark (pyproject.toml): started\n", "building pyspark", "building pyspark"),
        ("  Building editable for ottla (pyproject.toml): started\n", "building ottla", "building ottla"),
        (
            "  Building editable for ottla (pyproject.toml): finished with status 'done'\n",
            None,
            "putting ottla into pip's cache",
        ),
        (
            "Installing collected packages: py4j, pyspark, ottla\n",
            "unpacking 3 packages; Spark is the largest",
            "unpacking packages",
        ),
        ("Successfully installed lz4-4.4.5 ottla-0.1.0\n", "all packages are unpacked", "cleaning up"),
    ],
)
def test_what_pip_says_is_told_in_short(install: ModuleType, line: str, text: str | None, doing: str) -> None:
    assert install.short(line) == (text, doing)


@pytest.mark.parametrize(
    "line", ["Building wheels for collected packages: pyspark\n", "Requirement already satisfied: pip\n", "\n"]
)
def test_what_tells_nothing_to_whoever_waits_is_left_out(install: ModuleType, line: str) -> None:
    assert install.short(line) is None


def test_a_python_that_is_too_old_is_told_in_one_sentence(install: ModuleType) -> None:
    assert install.too_old(sys.version_info) is None
    assert install.too_old((3, 11, 0)) is None
    told = install.too_old((3, 9, 2))
    assert told.startswith("Ottla needs Python 3.11 or newer, and python3 is 3.9.")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == f">={'.'.join(map(str, install.OLDEST_PYTHON))}"


def test_an_environment_without_pip_is_completed(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian without python3-venv leaves such a one behind, and the next try must not fail for that."""
    done: list[str] = []
    monkeypatch.setattr(install, "run", lambda command, *_: done.append(command[2]) or 0)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert install.main(str(tmp_path), ".") == 0
    assert done == ["venv", "pip"]
    done.clear()
    (tmp_path / "bin" / "pip").touch()
    assert install.main(str(tmp_path), ".") == 0
    assert done == ["pip"]


def test_whoever_waits_hears_something_again_and_again(install: ModuleType) -> None:
    lines: list[str] = []
    reminded = install.threading.Event()

    def say(line: str) -> None:
        lines.append(line)
        if sum("still" in each for each in lines) == 2:
            reminded.set()

    with install.Story(say, quiet_s=0.01) as story:
        story.line("building it (450 MB)", "building it")
        assert reminded.wait(HANG_S)
    assert re.fullmatch(r"\[ +\d+ s\] building it \(450 MB\)", lines[0])
    assert re.fullmatch(r"\[ +\d+ s\]    still building it \(\d+ s\)", lines[1])


def test_whoever_waits_hears_what_goes_on_now_also_when_no_line_said_so(install: ModuleType) -> None:
    lines: list[str] = []
    reminded = install.threading.Event()
    story = install.Story(lambda line: (lines.append(line), reminded.set()), quiet_s=0.01)
    story.line(None, "looking for pyspark")
    assert lines == []
    with story:
        assert reminded.wait(HANG_S)
    assert "still looking for pyspark" in lines[0]


def test_whoever_waits_for_a_build_hears_how_far_it_is(install: ModuleType, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    assert install.how_far_the_build_is(notes) == ""
    notes.write_text("9\nottla.net._framing\nottla.records._native\n")
    assert install.how_far_the_build_is(notes) == ", 2 of 9 native parts are compiled"
    notes.write_text("0\n")  # no compiler, or none wanted
    assert install.how_far_the_build_is(notes) == ""
    setup = (ROOT / "setup.py").read_text("utf-8")
    assert "OTTLA_BUILD_NOTES" in setup
    lines: list[str] = []
    reminded = install.threading.Event()
    notes.write_text("9\n")
    with install.Story(lambda line: (lines.append(line), "still" in line and reminded.set()), 0.01, notes) as story:
        story.line("building ottla")
        assert reminded.wait(HANG_S)
    assert "still building ottla, 0 of 9 native parts are compiled (" in lines[1]


def test_a_step_that_fails_shows_all_that_it_said(install: ModuleType) -> None:
    seen: list[str] = []
    with install.Story(lambda _: None) as story:
        command = [sys.executable, "-c", "print('no space left'); raise SystemExit(7)"]
        assert install.run(command, story, seen.extend) == 7
    assert seen == ["no space left\n"]


def test_the_demo_installs_what_it_needs_and_no_more() -> None:
    planned = subprocess.run(
        ["make", "-n", "-C", str(ROOT), "demo", "VENV=/no/such/place"], capture_output=True, text=True, check=True
    ).stdout
    assert "packaging/install.py /no/such/place '.[console,registry,spark]'" in planned
    assert ".[dev]" not in planned
    assert "-m ottla.demo" in planned


# --- wheels and the source package -----------------------------------------------------------------------------------


def test_wheels_are_configured_for_every_python_that_is_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    built = project["tool"]["cibuildwheel"]
    promised = re.findall(r"Python :: (3)\.(\d+)", str(project["project"]["classifiers"]))
    assert {f"cp{major}{minor}-*" for major, minor in promised} <= set(built["build"].split())
    assert (PACKAGING / "try_wheel.py").exists()
    assert "try_wheel.py" in built["test-command"]
    assert next(iter(built["environment"])) in (ROOT / "setup.py").read_text("utf-8")


def test_a_wheel_is_tried_by_a_record_there_and_back() -> None:
    done = subprocess.run(
        [sys.executable, str(PACKAGING / "try_wheel.py"), "--python"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "works here" in done.stdout


def try_commands(program: Path, folder: Path) -> None:
    """What a stranger types first: a broker in one terminal, a record there and back in another."""
    listen, admin = (f"127.0.0.1:{port}" for port in free_ports(2))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HOME": str(folder), "OTTLA_BOOTSTRAP_SERVERS": listen, "OTTLA_ADMIN_LISTENER": admin}
    start = [str(program), "broker", "start", "--listen", listen]

    def typed(*words: str, said: str = "") -> str:
        done = subprocess.run(
            [str(program), *words],
            env=environment,
            input=said,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True, env=environment) as broker:
        assert broker.stdout is not None
        try:
            assert "is ready at" in broker.stdout.readline()
            typed("topic", "create", "clicks")
            typed("produce", "clicks", said="page-1\npage-2\n")
            assert typed("consume", "clicks", "-o", "beginning", "-e") == "page-1\npage-2\n"
            assert "clicks" in typed("topic", "list")
        finally:
            broker.terminate()
        assert broker.wait(HANG_S) == OK


@pytest.mark.long
def test_the_source_package_installs_into_a_fresh_environment_and_works(tmp_path: Path) -> None:
    source = tmp_path / "source"
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    build = "from setuptools import build_meta; print(build_meta.build_sdist('dist'))"
    built = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=True)
    package = source / "dist" / built.stdout.splitlines()[-1]
    python = tmp_path / "fresh" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "fresh")], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | hasty_compiler(tmp_path)
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", str(package)]
    subprocess.run(install, check=True, env=environment)
    words = [] if shutil.which("cc") else ["--python"]
    tried = [str(python), str(PACKAGING / "try_wheel.py"), *words]
    done = subprocess.run(tried, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "fresh") in done.stdout
    try_commands(python.with_name("ottla"), tmp_path)
