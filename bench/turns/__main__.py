"""`python -m bench.turns COMMIT`: our broker of that commit and of this tree, under the same load in turns, as ratios.

    python -m bench.turns HEAD~20                 everything, in about eight minutes
    python -m bench.turns HEAD~20 --only walk     the loads of bench.walk: produce and fetch
    python -m bench.turns HEAD~20 --only start    start to the first answer
    python -m bench.turns HEAD~20 --only tools    Apache's own producer, consumer and latency programs (needs Java)
    python -m bench.turns HEAD~20 --rounds 6      more rounds, steadier medians
    python -m bench.turns HEAD~20 --json          for other programs

Both brokers are up at once and one works while the other is idle, so that a machine that is slow for a minute is slow
for both; who begins changes from turn to turn. A ratio is this tree's figure divided by the commit's, and what is shown
is the median of the ratios of all turns with the middle half of them. Exit code 1 when this tree is worse by more than
5 % in a median. The commit is checked out and built in a directory that is removed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.turns import parts
from bench.turns.parts import Sides, table
from bench.walk.processes import ROOT

PARTS = {"walk": parts.walk, "start": parts.start, "tools": parts.tools}
BUILD_LIMIT_S = 900


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.turns", description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what this tree is compared with: a commit, a tag, a branch")
    parser.add_argument("--rounds", type=int, default=4, help="how many pairs of brokers are started (default 4)")
    parser.add_argument("--only", metavar="PART", choices=PARTS, help=f"one part: {', '.join(PARTS)}")
    parser.add_argument("--root", type=Path, help="where data is written (default: the system's temporary directory)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()

    chosen = PARTS if arguments.only is None else {arguments.only: PARTS[arguments.only]}
    with (
        tempfile.TemporaryDirectory(prefix="ottla-turns-", dir=arguments.root) as directory,
        checked_out(arguments.commit, Path(directory) / "before") as before,
    ):
        sides = Sides(before, ROOT, Path(directory))
        ratios = [ratio for part in chosen.values() for ratio in part(sides, arguments.rounds)]
    if arguments.json:
        print(json.dumps([{**asdict(each), "is_worse": each.is_worse} for each in ratios], indent=2))
    else:
        print(table(ratios))
    return 1 if any(each.is_worse for each in ratios) else 0


@contextmanager
def checked_out(commit: str, directory: Path) -> Iterator[Path]:
    """That commit with its native leaves built, as long as it is needed."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(directory), commit], check=True)
    try:
        build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        subprocess.run(build, cwd=directory, check=True, capture_output=True, timeout=BUILD_LIMIT_S)
        yield directory
    finally:
        subprocess.run([*git, "remove", "--force", str(directory)], check=True)


if __name__ == "__main__":
    sys.exit(main())
