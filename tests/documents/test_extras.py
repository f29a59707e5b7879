"""A fresh environment that has the wheel with one extra, and nothing else: what the extra is for works there, and the
pages that tell people to install it.

The short half, which every run has: every extra has its row here, and tests/unit/spark/doctor, where the extra names
every package that pipelines ask for.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.documents.test_documents import read_beside_brokers
from tests.spark.running import why_not

ROOT = Path(__file__).parents[2]
USES = {
    "arrow": "import pyarrow; from ottla import read_topic",
    "spark": "from ottla.spark.doctor.facts import missing_for_pipelines; assert not missing_for_pipelines()",
    "avro": "import ottla.client.schema_registry.avro, fastavro",
    "console": "import ottla.broker.console.part, ottla.broker.http.serving",
    "yaml": "import yaml",
    "zookeeper": "import ottla.cluster.store.zookeeper.store",
    "oauth": "import jwt",
    "registry": "import ottla.broker.registry.part, fastavro, jsonschema, google.protobuf",
    "postgres": "import psycopg; psycopg.connect",
    "tables": "import ottla.tables.delta, ottla.tables.iceberg, ottla.tables.loop",
    "otel": "from ottla.client.producer.tracing import Tracing; Tracing.enabled()",
}
"""What is imported with each extra."""
NOT_HERE = {
    "gssapi": "it wants the headers of the system's Kerberos library",
    "airflow": "eighty packages; tests/spark/test_pipeline_airflow.py runs where they are",
    "docs": "for `make docs`, no user's",
    "dev": "the environment of these tests",
    "all": "the sum of others",
}
PAGES = {
    "arrow": ("docs/client.md", "docs/tutorials/one-machine.md", "docs/tutorials/test-your-code.md"),
    "console": ("docs/console.md",),
    "yaml": ("docs/operating.md",),
    "spark": ("docs/pipelines.md", "docs/pipelines-in-production.md", "docs/jobs.md", "docs/spark.md"),
    "registry,console,spark": ("docs/tutorials/schemas.md",),
    "tables": ("docs/tables.md",),
}
BESIDE = {
    "arrow": ("pandas", "polars"),
    "spark": ("polars",),
    "registry,console,spark": ("confluent-kafka[avro,schemaregistry]",),
}
"""What the pages tell people to install besides, by name; and whoever writes tests has pytest."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", directory, ROOT])
    return next(directory.glob("*.whl"))


def run(command: list[object]) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def installed(wheel: Path, extra: str, directory: Path, *more: str) -> Path:
    """The Python of a new environment."""
    run([sys.executable, "-m", "venv", directory])
    python = directory / "bin/python"
    run([python, "-m", "pip", "install", "-q", f"{wheel}[{extra}]", *more])
    return python


def test_every_extra_has_its_row() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) == set(USES) | set(NOT_HERE)


@pytest.mark.long
@pytest.mark.parametrize("extra", [extra for extra in USES if extra not in PAGES])
def test_an_extra_installs_what_it_is_for(extra: str, wheel: Path, tmp_path: Path) -> None:
    python = installed(wheel, extra, tmp_path / "env")
    run([python, "-c", USES[extra]])


@pytest.mark.long
@pytest.mark.parametrize("extra", PAGES)
def test_the_pages_of_an_extra_work_with_what_it_installs(extra: str, wheel: Path, tmp_path: Path) -> None:
    if "spark" in extra and (reason := why_not()) is not None:
        pytest.skip(reason)
    python = installed(wheel, extra, tmp_path / "env", "pytest", *BESIDE.get(extra, ()))
    run([python, "-c", USES.get(extra, "import ottla")])
    for page in PAGES[extra]:
        place = tmp_path / page.replace("/", "-")
        place.mkdir()
        read_beside_brokers(page, place, str(python))
