"""`ottla spark`: is Spark set up for format("ottla"), and an archive of packages for executors that have no ottla.

1. `doctor` starts a session as a program would, and runs small tasks on it: what they find is what queries will meet.
   Brokers are tried from the driver and from the tasks when -b names them, and nothing is written.
2. `pack` needs no Spark and no broker.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.doctor import MARKS, summary
from ottla.cli.connecting import (
    Verbs,
    add_format,
    add_verb,
    ensure,
    output_of,
    pairs,
    sentences,
    settings_of,
)
from ottla.cli.job_running import check_installed
from ottla.cli.output import FAILED, OK, Output

if TYPE_CHECKING:
    from ottla.client.diagnosis import Finding

EXAMPLES: Final = """\
examples:
  ottla spark doctor                                        Spark on this machine
  ottla spark doctor --master spark://host:7077 -b broker:9092
  ottla spark doctor --remote sc://host:15002 --format json
  ottla spark pack                                          ottla-executors.tar.gz, with pyarrow
  ottla spark pack -o env.tar.gz --with fastavro --with requests
"""
ARCHIVE: Final = "ottla-executors.tar.gz"
TASKS: Final = 8


def add_verbs(verbs: Verbs) -> None:
    doctor = add_verb(verbs, "doctor", "driver, executors and brokers: what fits, what to do", run_doctor, EXAMPLES)
    doctor.add_argument("--master", metavar="URL", help="local[2], spark://host:7077, yarn, k8s://... (local[*])")
    doctor.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://host:15002")
    doctor.add_argument("--set", action="append", default=[], metavar="spark.x=y", help="a setting; may be repeated")
    doctor.add_argument("--archive", metavar="FILE", help="send this archive to executors (ottla spark pack)")
    doctor.add_argument("--tasks", type=int, default=TASKS, metavar="N", help=f"so many tasks report ({TASKS})")
    add_format(doctor)
    packing = verbs.add_parser("pack", help="an archive of ottla and what it needs, for executors")
    packing.description = (
        "Pack ottla and what it needs, for executors that have a Python of the same version but no ottla."
    )
    packing.epilog = EXAMPLES
    packing.formatter_class = argparse.RawDescriptionHelpFormatter
    packing.add_argument("-o", "--output", type=Path, default=Path(ARCHIVE), metavar="FILE", help=f"({ARCHIVE})")
    packing.add_argument("--with", dest="also", action="append", default=[], metavar="PACKAGE", help="this one, too")
    add_format(packing)
    packing.set_defaults(run=run_pack)


def run_pack(options: argparse.Namespace) -> int:
    from ottla.spark.running.packing import DIRECTORY, pack

    ensure(options.output.name.endswith((".tar.gz", ".tgz")), "-o must end in .tar.gz: Spark unpacks it by its name")
    with sentences():
        packed = pack(options.output, options.also)
    out = output_of(options)
    if options.format == "json":
        out.value({"archive": str(options.output), "bytes": options.output.stat().st_size, "packages": packed})
        return OK
    out.line(f"{options.output}: {options.output.stat().st_size / 2**20:.1f} MiB, {', '.join(packed)}")
    out.line(f"in a program:  session(master=..., archive={str(options.output)!r})")
    out.line(
        f"spark-submit:  --archives {options.output}#{DIRECTORY} --conf spark.executorEnv.PYTHONPATH=./{DIRECTORY}"
    )
    return OK


def run_doctor(options: argparse.Namespace) -> int:
    check_installed()
    ensure(not (options.master and options.remote), "give --master or --remote, not both")
    ensure(options.tasks > 0, "--tasks must be above 0")
    out = output_of(options)
    with sentences():
        findings = _examine(options)
    if options.format == "json":
        out.value([finding._asdict() for finding in findings])
    else:
        _show(findings, out)
    return FAILED if any(finding.result == "failed" for finding in findings) else OK


def _examine(options: argparse.Namespace) -> list[Finding]:
    from ottla.spark import session
    from ottla.spark.doctor.examining import examine_spark
    from ottla.spark.running.session import prefer_quick_start

    prefer_quick_start()
    client = settings_of(options) if _names_brokers(options) else {}
    spark = session(
        "ottla spark doctor",
        master=options.master,
        remote=options.remote,
        settings=pairs(options.set, "--set"),
        archive=options.archive,
        quiet=True,
        check=False,
    )
    try:
        return examine_spark(spark, client, options.tasks, is_remote=options.remote is not None)
    finally:
        spark.stop()


def _names_brokers(options: argparse.Namespace) -> bool:
    """Brokers are tried only when somebody says which."""
    return any((options.bootstrap_server, options.command_config, options.command_property))


def _show(findings: list[Finding], out: Output) -> None:
    for finding in findings:
        out.line(f"{MARKS[finding.result]}  {finding.step}: {finding.what}")
        if finding.remedy and finding.result in ("failed", "warning"):
            out.paragraph(finding.remedy, indent="           ")
    out.line(summary(findings))
