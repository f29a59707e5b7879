"""`ottla pipeline test`: the tests beside a pipeline, on real Spark and without a broker.

1. Files are read and checked before Spark is started; one Spark runs all tests.
2. A test that fails shows its rows as a table: what was expected (-), what was written (+). The exit code is 1 then.
3. --json gives every test with its differences, for programs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import DEFAULT_SERVERS, add_format, output_of, pairs, sentences
from ottla.cli.output import FAILED, OK, Failure, Output, escaped
from ottla.cli.pipelines import Verbs, add_parameters, add_spark, add_verb, chosen_parameters, wrong_files
from ottla.cli.show import shown_duration
from ottla.clock import SystemClock
from ottla.light_dataclasses import dataclass

if TYPE_CHECKING:
    from ottla.spark.pipelines.running import Loaded
    from ottla.spark.pipelines.testing.cases import Case
    from ottla.spark.pipelines.testing.comparing import Difference
    from ottla.spark.pipelines.testing.judging import Verdict

EXAMPLES: Final = """\
examples:
  ottla pipeline test                              tests/*.yml beside pipeline.yml here
  ottla pipeline test clicks/pipeline.yml          of another pipeline
  ottla pipeline test --tests tests/windows.yml    one file
  ottla pipeline test -k minute                    tests with this in their names
  ottla pipeline test --json                       for programs
"""
CELL_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    loaded: Loaded
    cases: Sequence[Case]


def add_test(verbs: Verbs) -> None:
    test = add_verb(verbs, "test", "run the tests of a pipeline: records in, rows expected", run_tests, EXAMPLES)
    test.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a YAML or Python file (pipeline.yml)")
    test.add_argument(
        "--tests",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a file of tests; may be repeated (tests/*.yml beside the pipeline)",
    )
    test.add_argument("-k", "--name", metavar="TEXT", default="", help="only tests with this in their names")
    add_parameters(test)
    add_spark(test)
    add_format(test)


def run_tests(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.connecting import open_session
    from ottla.spark.pipelines.testing.judging import run_case
    from ottla.spark.pipelines.testing.trying import SESSION
    from ottla.spark.running.session import prefer_quick_start

    out, clock = output_of(options), SystemClock()
    verdicts: list[tuple[Path, Verdict]] = []
    with sentences(), wrong_files():
        files = _chosen(options)
        prefer_quick_start()
        settings = {**SESSION, **pairs(options.set, "--set")}
        log = None if options.spark_log == "-" else Path(options.spark_log or _default_log())
        begun_ms = clock.monotonic_ms()
        with open_session(
            "ottla-test", master=options.master or "local[2]", remote=options.remote, settings=settings, log=log
        ) as spark:
            for file in files:
                plan = file.loaded.plan(DEFAULT_SERVERS)
                for case in file.cases:
                    case_ms = clock.monotonic_ms()
                    verdicts.append((file.path, run_case(spark, plan, file.loaded.graph, case)))
                    _show(out, file.path, verdicts[-1][1], (clock.monotonic_ms() - case_ms) / 1000)
    failed = sum(not verdict.passed for _, verdict in verdicts)
    if out.form == "json":
        out.value({"passed": len(verdicts) - failed, "failed": failed, "tests": [_as_json(*each) for each in verdicts]})
    seconds = shown_duration((clock.monotonic_ms() - begun_ms) / 1000)
    out.line(f"{len(verdicts) - failed} passed, {failed} failed in {seconds}")
    return FAILED if failed else OK


def _default_log() -> str:
    return str(Path(tempfile.gettempdir()) / f"ottla-test-{os.getuid()}-spark.log")


def _chosen(options: argparse.Namespace) -> list[_File]:
    """The files of tests with the tests that are to run."""
    from ottla.spark.pipelines.running import find_file, load
    from ottla.spark.pipelines.testing.yaml_tests import files_of_tests, open_test_file, read_cases

    files = []
    chosen = chosen_parameters(options)
    pipeline = None if options.tests and options.file is None else find_file(options.file, Path.cwd())
    for path in options.tests or files_of_tests(pipeline or Path.cwd()):
        opened = open_test_file(path)
        named = opened.pipeline if options.file is None else None
        loaded = load(find_file(named or pipeline or _beside(path), Path.cwd()), os.environ, chosen)
        cases = [case for case in read_cases(opened, loaded.graph.pipeline) if options.name in case.name]
        files.append(_File(path, loaded, cases))
    if not any(file.cases for file in files):
        wanted = f"no test has {options.name!r} in its name" if files else "there is no tests/*.yml beside the pipeline"
        raise Failure(f"nothing to test: {wanted}")
    return files


def _beside(tests: Path) -> Path:
    """The directory with the pipeline of a file of tests: its own, or the one above `tests`."""
    from ottla.spark.pipelines.running import FILE_NAMES

    directory = tests.absolute().parent
    return directory if any((directory / name).is_file() for name in FILE_NAMES) else directory.parent


# --- what is shown ----------------------------------------------------------------------------------------------------


def _show(out: Output, path: Path, verdict: Verdict, seconds: float) -> None:
    out.line(f"{'ok    ' if verdict.passed else 'FAILED'}  {path.name}: {verdict.case.name}  ({seconds:.1f} s)")
    if verdict.error is not None:
        for line in verdict.error.splitlines():
            out.line(f"        {line}")
    for difference in verdict.differences:
        out.line(f"    {difference.summary}")
        if out.form == "text":
            out.table(["", *(name.upper() for name in difference.columns)], list(_lines(difference)))


def _lines(difference: Difference) -> Iterator[list[str]]:
    for expected, written in difference.pairs:
        for sign, row in (("-", expected), ("+", written)):
            if row is not None:
                yield [f"    {sign}", *(_cell(row, name) for name in difference.columns)]


def _cell(row: Any, name: str) -> str:
    import json

    if name not in row:
        return ""
    value = row[name]
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return escaped(text if len(text) <= CELL_MAX else f"{text[:CELL_MAX]}…")


def _as_json(path: Path, verdict: Verdict) -> dict[str, Any]:
    differences = [
        {
            "dataset": each.dataset,
            "expected": each.expected,
            "written": each.written,
            "same": each.same,
            "rows": [{"expected": expected, "written": written} for expected, written in each.pairs],
        }
        for each in verdict.differences
    ]
    return {
        "file": str(path),
        "name": verdict.case.name,
        "passed": verdict.passed,
        "error": verdict.error,
        "differences": differences,
    }
