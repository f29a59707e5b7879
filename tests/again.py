"""`make test-again`: what failed in the last `make test` runs once more, alone, and is named either way.

CI has one try on a machine that others use, too: of 18,000 tests one that got no processor for half a minute must not
throw the work of days away, and must not be forgotten either (decision 0102). So:

1. At most three may have failed. More than that is not bad luck.
2. They run one after the other with nothing beside them. Who fails again has failed.
3. Who passes is named as unsteady in the last lines, which is what is kept of a run: it is a bug to look for. Whoever
   reads that writes the name into tests/unsteady.txt.
4. A test that stands there has had its second chance: CI fails, until it, or what it tests, is repaired and its line
   is gone.

`make test` itself gives no second chance.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 3
UNSTEADY = Path("tests/unsteady.txt")


def failed_tests() -> list[str]:
    """What failed in the last run; nothing if that run did not get as far as running tests."""
    try:
        return sorted(json.loads(LAST_FAILED.read_text()))
    except FileNotFoundError:
        return []


def named_before() -> set[str]:
    """Tests, without their parameters, that a run has named as unsteady and that nobody has repaired yet."""
    if not UNSTEADY.exists():
        return set()
    lines = (line.partition("#")[0].strip() for line in UNSTEADY.read_text().splitlines())
    return {line for line in lines if line}


def main() -> int:
    failed, named = failed_tests(), named_before()
    if again := [name for name in failed if name.partition("[")[0] in named]:
        print(f"unsteady for the second time, see {UNSTEADY}: {', '.join(again)}", file=sys.stderr)
        return 1
    if not 0 < len(failed) <= MOST:
        print(f"{len(failed)} tests failed: a second chance is for one to {MOST}", file=sys.stderr)
        return 1
    code = subprocess.run([sys.executable, "-m", "pytest", "-n", "0", *failed]).returncode
    for name in failed:
        print(f"{'unsteady, passed when alone' if code == 0 else 'failed'}: {name}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
