"""Where several brokers of one machine keep their data, and that neither way of starting passes over the other's.

    /data/broker.0     the logs of the first broker: no name of a partition (clicks-0) looks like this
    /data/broker.1     ...
    /data/quorum.json  how many of them are controllers, too (quorum.py)
    /data/cluster      what kept their metadata in builds from before the quorum; such data is refused

Every start asks this, so it loads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ottla.cli.output import Failure

BROKERS_LIMIT: Final = 64
FOLDER: Final = "broker."
BEFORE_THE_QUORUM: Final = "cluster"


def directories_of(directories: Iterable[Path], slot: int) -> list[Path]:
    """Where one broker keeps its logs."""
    return [each.absolute() / f"{FOLDER}{slot}" for each in directories]


def check_brokers(brokers: int) -> None:
    if not 1 <= brokers <= BROKERS_LIMIT:
        raise Failure(f"--brokers {brokers}: one machine runs 1 to {BROKERS_LIMIT} brokers")


def refuse_data_of_several(directories: Sequence[Path]) -> None:
    """A broker of its own does not begin anew beside the data of several."""
    for directory in directories:
        if slots := slots_in(directory):
            raise Failure(
                f"{directory} has the data of {max(slots) + 1} brokers; start it with --brokers {max(slots) + 1}."
            )


def refuse_other_data(directories: Sequence[Path], brokers: int) -> None:
    """Several do not begin anew beside the data of one, and none that is there is left out."""
    slots = {slot for directory in directories for slot in slots_in(directory)}
    if not slots and any((directory / "meta.properties").exists() for directory in directories):
        raise Failure(
            f"{directories[0]} has the data of a single broker. Start it without --brokers, or choose another "
            "directory with --data."
        )
    if slots and max(slots) >= brokers:
        raise Failure(
            f"{directories[0]} has the data of {max(slots) + 1} brokers. Start it with --brokers {max(slots) + 1}; or "
            f"move all replicas away from the last one, stop, and remove {FOLDER}{max(slots)}."
        )


def slots_in(directory: Path) -> set[int]:
    """Which of several brokers have data there."""
    try:
        names = [each.name for each in directory.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except OSError as error:
        raise Failure(f"cannot read {directory}: {error.strerror}. Choose another directory with --data.") from None
    numbers = [name.removeprefix(FOLDER) for name in names if name.startswith(FOLDER)]
    return {int(number) for number in numbers if number.isascii() and number.isdecimal()}
