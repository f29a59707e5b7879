"""Our objects in a Python that lacks ottla, has another version of it, or lacks what it needs."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

cloudpickle = pytest.importorskip("pyspark.cloudpickle", reason="needs PySpark: pip install 'ottla[spark]'")

from ottla.spark.datasource import OttlaSource  # noqa: E402

LOADING = "import pickle, sys; sys.path[:] = sys.argv[1:] + sys.path; pickle.load(sys.stdin.buffer)"
OPTIONS = {"kafka.bootstrap.servers": "localhost:9092"}


@pytest.fixture(scope="module")
def pickled() -> bytes:
    """As Spark pickles it, but without what PySpark would bring: the class of its options."""
    source = OttlaSource(OPTIONS)
    return bytes(cloudpickle.dumps(source))


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A place that has PySpark's pickling and nothing else."""
    import pyspark

    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "cloudpickle").symlink_to(Path(pyspark.__file__).parent / "cloudpickle")
    return tmp_path


def last_words(pickled: bytes, place: Path) -> str:
    done = subprocess.run([sys.executable, "-I", "-S", "-c", LOADING, str(place)], input=pickled, capture_output=True)
    assert done.returncode == 1
    return done.stderr.decode().splitlines()[-1]


def test_where_ottla_is_the_object_is_as_it_was(pickled):
    assert pickle.loads(pickled).options == OPTIONS


def test_without_ottla_the_error_says_so_and_what_to_do(pickled, bare):
    assert last_words(pickled, bare).startswith(f"RuntimeError: ottla is not installed for {sys.executable} on ")
    assert "ottla spark pack" in last_words(pickled, bare)


def test_with_another_version_the_error_names_both(pickled, bare):
    import ottla

    (bare / "ottla").mkdir()
    (bare / "ottla" / "__init__.py").write_text('__version__ = "0.0.1"\n')
    assert f"the driver has ottla {ottla.__version__}, and " in last_words(pickled, bare)
    assert " has 0.0.1." in last_words(pickled, bare)


def test_what_ottla_itself_lacks_is_named(pickled, bare):
    import ottla

    (bare / "ottla").mkdir()
    (bare / "ottla" / "__init__.py").write_text(f'__version__ = "{ottla.__version__}"\n__path__ = []\n')
    assert "which ottla needs for rows" in last_words(pickled, bare)
