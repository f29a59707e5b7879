"""The sync calls of the client are what the asyncio ones make (packaging/faces.py)."""

import inspect
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import ottla
import ottla.aio

ROOT = Path(__file__).parent.parent
spec = spec_from_file_location("packaging_faces", ROOT / "packaging/faces.py")
assert spec is not None
assert spec.loader is not None
faces = module_from_spec(spec)
spec.loader.exec_module(faces)

ONLY_TASKS = {"Producer": {"start", "stop", "send_and_wait"}, "Consumer": {"start"}, "ShareConsumer": {"start"}}
"""aiokafka's names, which blocking programs do not know."""


def test_every_made_file_is_what_its_source_makes_of_it() -> None:
    assert faces.stale() == [], "run `make faces`"


def test_a_made_file_that_was_changed_or_forgotten_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(faces.CLIENT, tmp_path / "client", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    monkeypatch.setattr(faces, "CLIENT", tmp_path / "client")
    changed, forgotten, *_ = (tmp_path / "client" / target for target, _ in faces.PAIRS.values())
    changed.write_text(changed.read_text().replace("timeout", "limit", 1))
    forgotten.unlink()
    assert faces.stale() == [changed, forgotten]


def test_async_and_await_go_and_comments_and_texts_stay() -> None:
    text = (
        "async def __aenter__(self):\n"
        '    """Await `this` of another task."""  # await\n'
        "    async with self.lock, (await self.other()) as other:\n"
        "        return await other(\n"
        "            [await each async for each in AsyncThing()]\n"
        "        )\n"
        "async def __aiter__(self) -> AsyncGenerator[int, None]: ...\n"
    )
    assert faces.sync_text(text, {"AsyncThing": "Thing"}) == (
        "def __enter__(self):\n"
        '    """Await `this` of another thread."""  # await\n'
        "    with self.lock, (self.other()) as other:\n"
        "        return other(\n"
        "            [each for each in Thing()]\n"
        "        )\n"
        "def __iter__(self) -> Generator[int, None, None]: ...\n"
    )


@pytest.mark.parametrize("kind", ["Producer", "Consumer", "ShareConsumer"])
def test_both_faces_have_the_same_calls_with_the_same_arguments(kind: str) -> None:
    sync, task = getattr(ottla, kind), getattr(ottla.aio, kind)
    names = {each for each in dir(task) if not each.startswith("_")} - ONLY_TASKS[kind]
    assert {each for each in dir(sync) if not each.startswith("_")} == names
    for name in names:
        ours, theirs = getattr(sync, name), getattr(task, name)
        if inspect.isfunction(ours):
            assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters), name
            assert (ours.__doc__ is None) == (theirs.__doc__ is None), name
