"""How a seed draws its plan: each one switches much off and raises the rest (swarm testing).

1. A run in which everything happens at once finds little: one fault hides the other, and nothing lasts long enough. So
   few workloads run together, and half of all plans have the kinds of faults of one theme, several at a time.
2. Time-outs are short in most plans: an election that takes two seconds happens ten times as often in a run as one
   that takes eight. Each is drawn by itself (tempo.py).
3. Half of them have the patience of production: one `pace` stretches all times, so that there are as many events in
   more time. Some have a network as between continents: much is under way at any moment.
4. Followers that may take only little at a time, tiny segments and tiny batches make rare moments long.
5. Nothing here knows of a planted bug; what is drawn is the same for every user.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from ottla.simulation.fault import KINDS
from ottla.simulation.workloads.names import drawn_loads, later_loads
from ottla.simulation.workloads.zombies import CLIENT_KINDS

THEMES: Final[Mapping[str, tuple[str, ...]]] = {
    "elections": ("kill", "restart", "stop", "pause", "isolate", "one-way", "session-loss", "slow"),
    "network": ("reset", "half-open", "hold", "slow", "one-way", "isolate", "pause"),
    "power": ("power", "power-at-disk", "power-all", "kill", "kill-at-disk", "isolate"),
    "disk": ("disk-full", "disk-slow", "disk-fail", "kill-at-disk", "restart"),
    "clocks": ("wall-clock", "clock-rate", "pause", "session-loss", "kill"),
}
WEIGHTS: Final = (4, 3, 2, 1, 1)  # of the themes
CLIENT_CHANCE: Final = 0.4
PACES: Final = (1.0, 10.0)
DISTANCES: Final = (1.0, 1.0, 10.0, 40.0)
TURNS: Final = (0.0, 0.5)
DEAF: Final = 0.7  # of the runs in which leaders take turns: some brokers do not hear each other
RESTLESS_PART: Final = 0.5  # of them: a hundred elections in a run, and copies that may be behind for long
RESTLESS: Final = {"turns": 0.95, "move_s": 0.5, "lag_s": 5.0}
CLIENT_AIMS: Final = (0.0, 0.5, 0.9)
PACED: Final = (  # what a pace stretches
    *("work_s", "fault_pause_s", "send_pause_s", "after_s", "fault_scale", "session_s", "lag_s"),
    *("request_s", "member_s", "transaction_s", "watch_s", "move_s"),
)


def drawn_values(seed: int, brokers: int | None) -> dict[str, Any]:
    """The values of a plan, by name."""
    random = Random(f"pace {seed}")  # drawn apart: what seeds had drawn before stays
    pace = random.choice(PACES)
    others = {"pace": pace, "distance": random.choice(DISTANCES), "turns": random.choice(TURNS)}
    values = {**values_without_pace(seed, brokers), **others, "client_aim": random.choice(CLIENT_AIMS)}
    if others["turns"] and "moves" in values["loads"]:
        if random.random() < DEAF:
            values["kinds"] = tuple(dict.fromkeys((*values["kinds"], "one-way")))
        if random.random() < RESTLESS_PART:
            values.update(RESTLESS)
    return {**values, **{name: round(values[name] * pace, 6) for name in PACED}}


def values_without_pace(seed: int, brokers: int | None) -> dict[str, Any]:
    random = Random(f"plan {seed}")
    drawn = random.choice((1, 3))  # also when it is said: the rest must not depend on that
    count = brokers or drawn
    durability = random.choice(("durable", "replicated"))
    session_s = random.choice((1.5, 1.5, 3.0, 6.0))
    return {
        "seed": seed,
        "brokers": count,
        "partitions": random.randint(1, 3),
        "durability": durability if count > 1 else "durable",
        "kinds": drawn_kinds(random),
        "work_s": round(random.uniform(8.0, 12.0) * (1 + session_s / 3), 3),
        "fault_pause_s": random.choice((0.5, 1.0, 2.0, 4.0)) * (0.5 + session_s / 3),
        "send_pause_s": random.choice((0.1, 0.2, 0.5, 1.0)),
        "loads": drawn_loads(Random(f"loads {seed}")) + later_loads(seed),
        "client_kinds": tuple(kind for kind in CLIENT_KINDS if random.random() < CLIENT_CHANCE),
        "after_s": 1.5,
        "fault_scale": random.choice((0.25, 0.5, 1.0)),
        "session_s": session_s,
        "lag_s": random.choice((1.0, 2.0, 5.0)),
        "fetch_bytes": random.choice((0, 0, 1, 300)),
        "aim": random.choice((0.0, 0.5, 0.9)),
        "chains": random.choice((0.0, 0.2, 0.5)),
        **_drawn_tempo(random),
    }


def drawn_kinds(random: Random) -> tuple[str, ...]:
    """Of one theme, or of all."""
    if random.random() < 0.25:
        return tuple(random.sample(KINDS, random.choice((0, 1, 2, 3, 4, 6, 10))))
    (theme,) = random.choices(list(THEMES.values()), WEIGHTS)
    return tuple(random.sample(theme, random.randint(1, min(4, len(theme)))))


def _drawn_tempo(random: Random) -> dict[str, Any]:
    return {
        "request_s": random.choice((1.0, 3.0, 5.0)),
        "member_s": random.choice((1.5, 3.0, 6.0)),
        "transaction_s": random.choice((3.0, 6.0, 10.0)),
        "watch_s": random.choice((0.2, 0.5, 1.0)),
        "move_s": random.choice((1.0, 2.0, 5.0)),
        "burst": random.choice((1, 1, 4, 8)),
        "batch_bytes": random.choice((262_144, 262_144, 200)),
        "segment_bytes": random.choice((0, 0, 400, 2_000)),
    }
