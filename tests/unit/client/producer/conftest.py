"""Both twins of the hot path, whichever the room itself chose."""

import importlib
import types

import pytest


def _python_twin():
    names = {}
    rooms = ("delivery", "producer_batch", "topic_state", "arrow_rows", "produce_frames", "tally")
    modules = (*(f"batches.{room}" for room in rooms), "hot_path")
    for module in modules:
        names.update(vars(importlib.import_module(f"ottla.client.producer.{module}")))
    return types.SimpleNamespace(**{name: each for name, each in names.items() if not name.startswith("__")})


@pytest.fixture(scope="session", params=["python", "native"])
def twin(request):
    if request.param == "python":
        return _python_twin()
    return pytest.importorskip("ottla.client.producer.batches._append", reason="not built: no C compiler")


@pytest.fixture(scope="session")
def both():
    return _python_twin(), pytest.importorskip(
        "ottla.client.producer.batches._append", reason="not built: no C compiler"
    )
