"""The rules of access follow the image of the broker, so nobody sets it past them."""

from __future__ import annotations

import re
from pathlib import Path

import ottla.broker

SETS_IMAGE = re.compile(r"\bbroker\.image\s*=[^=]|self\.image\s*=[^=]")


def test_the_image_of_a_broker_is_set_in_one_place() -> None:
    root = Path(ottla.broker.__file__).parent
    found = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if SETS_IMAGE.search(path.read_text())}
    assert found - {"coordinators"} == {"broker.py"}
    assert (root / "broker.py").read_text().count("self.image = ") == 1
