"""The sum of many runs, as plain values: what a campaign keeps while it goes on, writes down, and goes on from.

    tally = Tally({"seeds": "1-50000", "is_short": True})
    tally.add(outcome_of(run_plan(Plan.short(7))))
    tally.save(path); tally = read_tally(path, {"seeds": "1-50000", "is_short": True})

1. It stays small: numbers, the ranges of seeds that are done, and what the first FAILURES_LIMIT failing seeds showed.
2. A file is replaced as a whole, so that whoever is killed leaves the one before. One that was begun with other
   options is refused.
3. `digest` does not depend on the order of the seeds: the same seeds and the same code have the same.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from ottla.simulation.run import Result

Outcome: TypeAlias = dict[str, Any]

FAILURES_LIMIT: Final = 1_000
SUMS: Final = ("virtual_s", "cpu_s", "steps", "acknowledged", "events")


def outcome_of(result: Result, shown: int = 10) -> Outcome:
    """What a run adds to a tally; small, because it goes from process to process."""
    return {
        **result.plain(shown),
        "steps": result.steps,
        "events": len(result.history.events),
        "kinds": dict(Counter(fault.kind for fault in result.faults)),
    }


class Ranges:
    """A set of numbers, kept as ranges: seeds are done nearly in order."""

    def __init__(self, pairs: Iterator[tuple[int, int]] | list[tuple[int, int]] | None = None) -> None:
        self._last_of: dict[int, int] = dict(pairs or ())
        self._first_of = {last: first for first, last in self._last_of.items()}

    def add(self, number: int) -> None:
        if number in self:
            return
        first = self._first_of.pop(number - 1, number)
        last = self._last_of.pop(number + 1, number)
        self._last_of[first] = last
        self._first_of[last] = first

    def pairs(self) -> list[tuple[int, int]]:
        return sorted(self._last_of.items())

    def __contains__(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self._last_of.items())


class Tally:
    """See the module. `asked` is what the campaign was begun with."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.asked = dict(asked)
        self.runs = 0
        self.failed = 0
        self.sums = dict.fromkeys(SUMS, 0.0)
        self.of_brokers: dict[int, dict[str, float]] = {}
        self.loads: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.anomalies: Counter[str] = Counter()
        self.failures: list[Outcome] = []
        self.done = Ranges()
        self.digest = 0
        self.elapsed_s = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count one run."""
        self.runs += 1
        self.done.add(outcome["seed"])
        brokers = self.of_brokers.setdefault(outcome["brokers"], {"runs": 0, "virtual_s": 0.0, "cpu_s": 0.0})
        brokers["runs"] += 1
        for name in ("virtual_s", "cpu_s"):
            brokers[name] += outcome[name]
        for name in SUMS:
            self.sums[name] += outcome[name]
        self.loads.update(outcome["loads"])
        self.kinds.update(outcome["kinds"])
        self.digest = (self.digest + zlib.crc32(f"{outcome['seed']} {outcome['digest']}".encode())) & 0xFFFF_FFFF
        if outcome["anomalies"]:
            self._add_failure(outcome)

    def _add_failure(self, outcome: Outcome) -> None:
        self.failed += 1
        self.anomalies.update({name for name, _ in outcome["anomalies"]})
        if len(self.failures) < FAILURES_LIMIT:
            names = ("seed", "brokers", "loads", "anomalies", "repeat")
            self.failures.append({name: outcome[name] for name in names})

    @property
    def rate(self) -> float:
        """Virtual seconds for each second of CPU."""
        return self.sums["virtual_s"] / max(self.sums["cpu_s"], 1e-9)

    def plain(self) -> dict[str, Any]:
        """As values for JSON."""
        return {
            "asked": self.asked,
            "runs": self.runs,
            "failed": self.failed,
            "sums": {name: round(value, 3) for name, value in self.sums.items()},
            "times_real_time": round(self.rate, 1),
            "elapsed_s": round(self.elapsed_s, 1),
            "digest": f"{self.digest:08x}",
            "brokers": {str(count): each for count, each in sorted(self.of_brokers.items())},
            "loads": dict(sorted(self.loads.items())),
            "faults": dict(sorted(self.kinds.items())),
            "anomalies": dict(sorted(self.anomalies.items())),
            "failures": self.failures,
            "done": self.done.pairs(),
        }

    def save(self, path: Path) -> None:
        """Write it down; see 2."""
        beside = path.with_name(f"{path.name}.new")
        beside.write_text(json.dumps(self.plain(), indent=1) + "\n", encoding="utf-8")
        beside.replace(path)

    def lines(self) -> Iterator[str]:
        """What a campaign says at its end."""
        sums = self.sums
        yield (
            f"{self.runs} seeds, {sums['virtual_s']:.0f} s of virtual time in {sums['cpu_s']:.1f} s of CPU "
            f"({self.rate:.0f} times real time), {sums['steps']:.0f} steps, {sums['acknowledged']:.0f} records "
            f"acknowledged, {sum(self.kinds.values())} faults, digest {self.digest:08x}"
        )
        for count, each in sorted(self.of_brokers.items()):
            rate = each["virtual_s"] / max(each["cpu_s"], 1e-9)
            yield (
                f"  {count} broker(s): {each['runs']:.0f} seeds, {each['virtual_s']:.0f} s of virtual time, "
                f"{1000 * each['cpu_s'] / each['runs']:.0f} ms of CPU each, {rate:.0f} times real time"
            )
        seeds = " ".join(str(each["seed"]) for each in self.failures)
        yield f"{self.failed} with anomalies" + (f" ({', '.join(sorted(self.anomalies))}): {seeds}" if seeds else "")


def read_tally(path: Path, asked: Mapping[str, Any]) -> Tally:
    """What an earlier run of the same campaign wrote down; a new one when there is no file."""
    tally = Tally(asked)
    if not path.exists():
        return tally
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        before = values["asked"]
        tally.runs, tally.failed = values["runs"], values["failed"]
        tally.sums = dict(values["sums"])
        tally.of_brokers = {int(count): each for count, each in values["brokers"].items()}
        tally.loads, tally.kinds = Counter(values["loads"]), Counter(values["faults"])
        tally.anomalies, tally.failures = Counter(values["anomalies"]), values["failures"]
        tally.done = Ranges([(first, last) for first, last in values["done"]])
        tally.digest, tally.elapsed_s = int(values["digest"], 16), values["elapsed_s"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SystemExit(f"{path} is no report of a campaign: {error!r}") from None
    if before != json.loads(json.dumps(dict(asked))):
        raise SystemExit(f"{path} is the report of another campaign ({before}); write to another file")
    return tally
