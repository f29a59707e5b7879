"""The native leaves built with AddressSanitizer, and tests that run on them: `python -m tests.fuzz.sanitized`.

They are built from this checkout into a directory of their own, beside copies of the Python modules, so that nothing of
what is installed changes. Python's own memory comes from malloc then, because the sanitizer guards nothing else: a byte
read or written outside of any block ends the process, with the place in the source.

    python -m tests.fuzz.sanitized                     builds into build/sanitized, then fuzzes and compares the twins
    python -m tests.fuzz.sanitized tests/unit/records  builds, then runs these tests
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLAGS = "-fsanitize=address -fno-omit-frame-pointer -g1"
BUILD_LIMIT_S = 1800
RUN_LIMIT_S = 3600
TESTS = (
    "tests/fuzz/test_leaves.py",
    "tests/unit/records",
    "tests/unit/schemas/arrow",
    "tests/unit/client/consumer/test_records.py",
    "tests/unit/client/consumer/test_buffer_reader.py",
    "tests/unit/client/producer",
    "tests/unit/broker/fetch",
    "tests/unit/broker/produce",
    "tests/unit/broker/replication/test_simple_fetch.py",
    "tests/unit/net/test_framing.py",
    "tests/unit/net/test_tls_twins.py",
    "tests/unit/storage/log",
    "tests/unit/storage/segment",
)


def missing() -> str | None:
    """Why there can be no sanitized build here; None when there can."""
    if sys.platform != "linux":
        return "the sanitizer is preloaded as Linux does it"
    if shutil.which("gcc") is None:
        return "gcc is not installed"
    if not library().is_absolute():
        return "gcc has no libasan: install libasan, or gcc's own package of it"
    return None


def library() -> Path:
    """The sanitizer's own library; a bare name when the compiler has none."""
    return Path(subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip())


def build(directory: Path) -> None:
    """All leaves of setup.py, and the modules beside them, into `directory`."""
    flags = {"CC": "gcc", "CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address", "OTTLA_BUILD_NATIVE": "1"}
    into = ["--build-lib", str(directory)]
    objects = ["--build-temp", str(directory.with_name(f"{directory.name}-objects"))]
    command = [sys.executable, "setup.py", "--quiet", "build_py", *into, "build_ext", *into, *objects]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **flags}, capture_output=True, text=True, timeout=BUILD_LIMIT_S
    )
    if done.returncode:
        raise RuntimeError(f"the sanitized build failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def environment(directory: Path) -> dict[str, str]:
    """For a process that uses the leaves in `directory`."""
    return {
        **os.environ,
        "PYTHONPATH": str(directory),
        "LD_PRELOAD": str(library()),
        # Python keeps memory until its end on purpose, and asks for too much in tests on purpose.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONMALLOC": "malloc",
        "OTTLA_RECORDS": "native",
    }


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments on the leaves in `directory`."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment(directory),
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
    )


def run_tests(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(directory, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments)


def main() -> None:
    if (reason := missing()) is not None:
        raise SystemExit(f"no AddressSanitizer: {reason}")
    directory = ROOT / "build" / "sanitized"
    build(directory)
    for test in sys.argv[1:] or TESTS:
        print(test, flush=True)
        done = run_tests(directory, test)
        if done.returncode:
            raise SystemExit(done.stdout[-4000:] + done.stderr[-8000:])


if __name__ == "__main__":
    main()
