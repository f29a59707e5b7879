"""What the words of `ottla job` become, and which are refused; without Spark."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from ottla.cli import job_running
from ottla.cli.main import main, make_parser
from ottla.cli.output import FAILED, WRONG_USAGE, Failure


def parsed(*words: str) -> Namespace:
    found: Namespace = make_parser(["job"]).parse_args(["job", *words])
    return found


def test_an_archive_reads_what_is_committed_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = job_running.reading_of(parsed("archive", "a", "b", "--to", "x", "-b", "h:1", "--batch-records", "7"))
    assert (plan.topics, plan.isolation_level, plan.batch_records) == (("a", "b"), "read_committed", 7)
    assert plan.settings["bootstrap.servers"] == "h:1"


def test_a_profile_has_times_and_no_batches() -> None:
    plan = job_running.reading_of(
        parsed("profile", "a", "--since", "2026-11-01T00:00:00Z", "--until", "2026-11-02T00:00:00Z")
    )
    assert (plan.since_ms, plan.until_ms, plan.batch_records) == (1_793_491_200_000, 1_793_577_600_000, None)


def test_the_target_of_a_mirror_has_settings_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "target.properties"
    file.write_text("security.protocol=SASL_SSL\n")
    options = parsed(
        *("mirror", "a", "--target", "t:1", "--checkpoint", "c", "-X", "client.id=source"),
        *("--target-config", str(file), "--target-property", "client.id=mirror"),
    )
    assert job_running.target_settings(options) == {
        "bootstrap.servers": "t:1",
        "security.protocol": "SASL_SSL",
        "client.id": "mirror",
    }


def test_a_period_becomes_sparks_words() -> None:
    assert (job_running.period("5s"), job_running.period("1m"), job_running.period(None)) == (
        "5000 milliseconds",
        "60000 milliseconds",
        None,
    )
    with pytest.raises(Failure, match="--every soon"):
        job_running.period("soon")


def test_a_path_of_this_machine_is_made_whole_and_others_are_left() -> None:
    local, remote = parsed("archive", "a", "--to", "x"), parsed("archive", "a", "--to", "x", "--remote", "sc://h:1")
    assert job_running.place("x", local) == str(Path("x").absolute())
    assert job_running.place("s3a://b/x", local) == "s3a://b/x"
    assert job_running.place("x", remote) == "x"


def test_what_the_user_sets_wins_and_a_cluster_keeps_its_own_defaults() -> None:
    name = "spark.sql.shuffle.partitions"
    assert int(job_running._spark_settings(parsed("profile", "a"))[name]) >= job_running.PARTS_PER_CORE
    assert job_running._spark_settings(parsed("profile", "a", "--set", f"{name}=3")) == {name: "3"}
    assert job_running._spark_settings(parsed("profile", "a", "--master", "spark://h:1")) == {}


def test_json_is_asked_for_in_both_words() -> None:
    assert parsed("profile", "a", "--json").format == "json"
    assert parsed("profile", "a", "--format", "json").format == "json"
    assert parsed("profile", "a").format == "text"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("archive", "--to", "x"), "which topics? Name them, or give --pattern"),
        (("archive", "a", "--pattern", "b", "--to", "x"), "name topics or give --pattern, not both"),
        (("archive", "a"), "the following arguments are required: --to"),
        (("archive", "a", "--to", "x", "--batch-records", "0"), "--batch-records must be above 0"),
        (("archive", "a", "--to", "x", "--every", "soon"), "write a length of time as 90s"),
        (("replay", "x", "--since", "-1h", "--until", "-2h"), "--since must be before --until"),
        (("replay", "x", "--since", "soon"), "--since soon"),
        (("replay", "x", "--partitions", "kep"), "did you mean 'keep'?"),
        (("mirror", "a", "--target", "t:1"), "required: --checkpoint"),
        (("profile", "a", "--top", "-1"), "--top must be 0 or more"),
        (("profile", "a", "--master", "local", "--remote", "sc://x"), "give --master or --remote, not both"),
        (("profile", "a", "--set", "spark.x"), "--set spark.x: write it as NAME=VALUE"),
        (("arch",), "did you mean 'archive'?"),
    ],
)
def test_wrong_words_are_refused_with_a_sentence(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")
    try:
        code, expected = main(["job", *words]), FAILED
    except SystemExit as ended:  # the words cannot even be read
        code, expected = int(ended.code or 0), WRONG_USAGE
    assert code == expected
    assert sentence in capsys.readouterr().err


def test_without_pyspark_it_is_said_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(name: str) -> Any:
        return None if name == "pyspark" else object()

    monkeypatch.setattr(job_running, "find_spec", find)
    assert main(["job", "profile", "a"]) == FAILED
    assert "pyspark must be installed: pip install 'ottla[spark]'" in capsys.readouterr().err
