"""One target in a process of its own: `python -m tests.fuzz.worker NAME INPUTS FOLDER ENGINE [SEED [SECONDS]]`.

1. The engine is `atheris` (libFuzzer with coverage of Python) or `mutation` (mutate.py, without coverage).
2. FOLDER/corpus keeps what atheris finds new, so that a second run goes on where the first ended.
3. FOLDER/stats.json says how many inputs there were and how much memory the process had: after the first fifth, at its
   peak and at the end.
4. One input has TIME_LIMIT_S; a process that takes more is ended, by libFuzzer or by the kernel. FOLDER/current has the
   input that was worked on, also when the process dies without a word.
5. After SECONDS (0: no limit) it ends in order, with the inputs that it had until then.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import mmap
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LENGTH_LIMIT_BYTES = 4_096
TIME_LIMIT_S = 60  # an input takes milliseconds; sixteen others may want the same core
MEMORY_LIMIT_MIB = 2_048
SAMPLE_EVERY = 200
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory_bytes() -> int:
    """What this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


class Watch:
    """Counts inputs, keeps the one of now, and samples memory."""

    def __init__(self, folder: Path, inputs: int) -> None:
        self._file = folder / "stats.json"
        self._warm_after = inputs // 5
        self._count = 0
        self._began_s = time.monotonic()
        self._first_bytes = self._peak_bytes = 0
        current = folder / "current"
        current.write_bytes(bytes(4 + LENGTH_LIMIT_BYTES))
        with current.open("r+b") as file:
            self._current = mmap.mmap(file.fileno(), 0)

    def before(self, data: bytes) -> None:
        size = min(len(data), LENGTH_LIMIT_BYTES)
        self._current[: 4 + size] = size.to_bytes(4, "big") + data[:size]
        self._count += 1
        if self._count == 1 or self._count % SAMPLE_EVERY == 0:  # few inputs are counted, too
            self.sample()

    def sample(self) -> None:
        now_bytes = memory_bytes()
        self._peak_bytes = max(self._peak_bytes, now_bytes)
        if not self._first_bytes and self._count >= self._warm_after:
            self._first_bytes = now_bytes
        found = {
            "inputs": self._count,
            "seconds": time.monotonic() - self._began_s,
            "warm_bytes": self._first_bytes or now_bytes,
            "peak_bytes": self._peak_bytes,
            "end_bytes": now_bytes,
        }
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(found))
        fresh.replace(self._file)


def fed(target: Any, watch: Watch) -> Callable[[bytes], None]:
    def one_input(data: bytes) -> None:
        watch.before(data)
        with contextlib.suppress(target.declared):
            target.decode(data)

    return one_input


def run_mutations(target: Any, inputs: int, watch: Watch, seed: str, seconds: int) -> None:
    from tests.fuzz.mutate import mutate

    source, seeds, feed = random.Random(f"{seed} {target.name}"), target.seeds(), fed(target, watch)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel ends who takes too long, whatever he does
    end_s = time.monotonic() + seconds
    for number in range(inputs):
        if seconds and time.monotonic() > end_s:
            break
        data = source.choice(seeds)
        if number >= len(seeds):
            data = mutate(data, source) if number % 10 else source.randbytes(source.randrange(200))
        signal.alarm(TIME_LIMIT_S)
        feed(data)
    signal.alarm(0)
    watch.sample()


def run_atheris(name: str, inputs: int, folder: Path, watch: Watch, seed: str, seconds: int) -> None:
    import atheris

    with atheris.instrument_imports(include=["ottla"]):
        from tests.fuzz.all_targets import find_target

        target = find_target(name)
        for each in target.seeds()[:50]:  # what is loaded by the way is instrumented too
            with contextlib.suppress(target.declared):
                target.decode(each)
    corpus, found = folder / "corpus", folder / "found"
    for directory in (corpus, found):
        directory.mkdir(exist_ok=True)
    for each in target.seeds():
        (corpus / hashlib.sha1(each).hexdigest()).write_bytes(each[:LENGTH_LIMIT_BYTES])
    options = [
        f"-runs={inputs}",
        f"-seed={int(hashlib.sha1(seed.encode()).hexdigest()[:7], 16) or 1}",
        f"-max_len={LENGTH_LIMIT_BYTES}",
        f"-max_total_time={seconds}",
        f"-timeout={TIME_LIMIT_S}",
        f"-rss_limit_mb={MEMORY_LIMIT_MIB}",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], fed(target, watch))
    atheris.Fuzz()


def main() -> None:
    name, inputs, folder, engine = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    seed = sys.argv[5] if len(sys.argv) > 5 else "1"
    seconds = int(sys.argv[6]) if len(sys.argv) > 6 else 0
    logging.getLogger("ottla").setLevel(logging.ERROR)  # only traces are looked for
    watch = Watch(folder, inputs)
    if engine == "atheris":
        run_atheris(name, inputs, folder, watch, seed, seconds)
    else:
        from tests.fuzz.all_targets import find_target

        run_mutations(find_target(name), inputs, watch, seed, seconds)


if __name__ == "__main__":
    main()
