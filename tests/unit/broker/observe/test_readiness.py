"""What /health/ready tells of the disks."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.broker.observe.readiness import ROOM_NEEDED_BYTES, why_not_led, why_not_writable
from ottla.errors import KafkaStorageError

FAILED = KafkaStorageError("gone")


@dataclass
class Disk:
    free: int = ROOM_NEEDED_BYTES
    failure: KafkaStorageError | None = None
    path: Path = Path("/data")

    @property
    def files(self) -> "Disk":
        return self

    def free_bytes(self, path: Path) -> int:
        if self.free < 0:
            raise KafkaStorageError("input/output error")
        return self.free


@pytest.mark.parametrize("disks", [[Disk()], [Disk(free=0), Disk()], [Disk(failure=FAILED), Disk()]])
def test_one_directory_with_room_is_enough(disks: list[Disk]) -> None:
    assert why_not_writable(disks) is None


@pytest.mark.parametrize(
    ("disk", "problem"),
    [
        (Disk(free=ROOM_NEEDED_BYTES - 1), "/data is full (10485759 bytes are free)"),
        (Disk(failure=FAILED), "/data is offline"),
        (Disk(free=-1), "/data cannot be used"),
    ],
)
def test_a_broker_that_cannot_write_is_not_ready_and_says_why(disk: Disk, problem: str) -> None:
    told = why_not_writable([disk])
    assert told is not None
    assert told.startswith("nothing can be written")
    assert problem in told


def test_a_controller_is_ready_when_somebody_leads_the_metadata_log():
    assert why_not_led(3) is None
    assert "no majority" in why_not_led(-1)
