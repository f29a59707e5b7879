"""What annoyed newcomers, and the test that keeps each of it away.

The first table is that of the examination of November 2026 (a walk through README, demo and commands), the second what
was found by walking again. A row is a friction and the tests about it as FILE::TEST; a row whose test is gone fails.
"""

import ast
import sys
from pathlib import Path

import pytest
from bench.first_minutes.__main__ import END, START, Line, Run, Silence, faults_of, longest_silence, run

ROOT = Path(__file__).parents[1]
FRICTIONS = {
    "make demo is silent for five minutes while it installs": [
        "tests/test_packaging.py::test_whoever_waits_hears_something_again_and_again",
        "tests/test_packaging.py::test_the_demo_installs_what_it_needs_and_no_more",
        "tests/unit/test_demo.py::test_whoever_waits_hears_that_it_is_still_at_work",
        "tests/test_newcomer.py::test_what_is_too_silent_too_long_or_broken_is_a_fault",
    ],
    "make demo prints a BrokenPipe traceback and an ERROR of Spark; no dead letter and no command is shown": [
        "tests/spark/test_demo.py::test_the_demo_tells_its_story_and_prints_nothing_else",
    ],
    "make demo does not say where to look next": [
        "tests/unit/test_demo.py::test_it_ends_with_where_to_look_next",
    ],
    "the tests fail when they are started in the background, where Ctrl-C is ignored": [
        "tests/client/test_signals_and_forks.py::test_ctrl_c_ends_every_wait_of_a_consumer",
        "tests/client/test_consumer_reading.py::test_ctrl_c_ends_a_poll_and_the_consumer_stays_usable",
    ],
    "skipped tests print no reasons": ["tests/test_newcomer.py::test_skipped_tests_give_their_reason"],
    "pipeline init and pipeline run end with 'topic is not there'": [
        "tests/unit/spark/pipelines/test_command.py::test_a_topic_that_is_not_there_comes_with_the_command_that_makes_it",
        "tests/documents/test_documents.py::test_what_a_document_says_works",
    ],
    "the README's consumer loop never ends": ["tests/documents/test_documents.py::test_what_a_document_says_works"],
    "Ctrl-C in a consumer loop shows a traceback of ours": [
        "tests/client/test_signals_and_forks.py::test_ctrl_c_ends_a_loop_over_a_consumer_which_leaves_its_group",
        "tests/client/test_signals_and_forks.py::test_ctrl_c_ends_every_wait_of_a_consumer",
    ],
    "Ctrl-C in a command shows a traceback": [
        "tests/unit/cli/test_main.py::test_failures_are_a_sentence_and_ctrl_c_is_quiet",
    ],
    "group reset --execute with a live member prints one sentence five times": [
        "tests/client/test_cli.py::test_what_fails_for_one_reason_is_said_once",
    ],
    "produce -p 77 waits 30 s": ["tests/client/test_cli.py::test_a_partition_that_is_not_there_is_told_at_once"],
    "config describe broker 7 waits 30 s": [
        "tests/client/test_cli.py::test_a_broker_that_is_not_there_is_told_at_once"
    ],
    "ottla.Consumer('t') without a group is refused and leaks a socket": [
        "tests/client/test_consumer_reading.py::test_topics_without_a_group_are_refused_before_anything_is_opened",
        "tests/client/test_consumer_reading.py::test_a_start_that_fails_leaves_no_socket_open",
    ],
    "wrong usage ends with 1 and points to ottla --help instead of the verb's": [
        "tests/unit/cli/test_main.py::test_wrong_words_end_with_2_the_nearest_and_the_help_of_the_verb",
    ],
    "log list of 166 partitions takes 3 s of CPU": [
        "tests/unit/cli/test_log.py::test_many_partitions_are_listed_without_reading_their_indexes",
    ],
    "jobs print BrokenPipe tracebacks": [
        "tests/unit/spark/running/test_worker_exit.py"
        "::test_a_worker_whose_connection_was_closed_just_ends_also_in_its_first_task",
    ],
    "topic describe counts aborted rows": [
        "tests/client/test_cli_nouns.py::test_a_topic_is_described_without_counting_exactly_what_only_offsets_tell",
    ],
    "an admin port that is taken is blamed on the client port": [
        "tests/unit/cli/test_broker.py::test_an_admin_port_that_is_taken_is_not_blamed_on_the_client_port",
        "tests/unit/cli/test_broker.py::test_the_ready_line_says_where_metrics_and_health_are",
    ],
    "a program for confluent-kafka, kafka-python or aiokafka is refused or sees something else": [
        "tests/client/test_compat.py::test_a_program_sees_the_same_when_only_its_import_changes",
        "tests/client/test_compat.py::test_closing_commits_what_was_read_unless_told_not_to",
        "tests/client/test_compat.py::test_throttle_cb_hears_that_a_broker_wants_it_slower",
    ],
    "there are no kafka-* commands": [
        "tests/conformance/test_kafka_tools.py::test_our_commands_print_what_apaches_printed",
    ],
    "there is no container image, systemd unit or wheel configuration": [
        "tests/test_packaging.py::test_the_container_copies_what_is_there_and_its_words_are_commands",
        "tests/test_packaging.py::test_systemd_knows_every_word_of_the_unit",
        "tests/test_packaging.py::test_wheels_are_configured_for_every_python_that_is_promised",
    ],
}
FOUND_AGAIN: dict[str, list[str]] = {
    "the installer says 'still installed (5 s)', and of a build of minutes only that it builds": [
        "tests/test_packaging.py::test_what_pip_says_is_told_in_short",
        "tests/test_packaging.py::test_whoever_waits_for_a_build_hears_how_far_it_is",
    ],
    "a first try without python3-venv leaves an environment that every further try fails with": [
        "tests/test_packaging.py::test_an_environment_without_pip_is_completed",
    ],
    "an old python3 fails in the middle of pip": [
        "tests/test_packaging.py::test_a_python_that_is_too_old_is_told_in_one_sentence",
    ],
    "the demo says '... still at it', not at what": [
        "tests/unit/test_demo.py::test_whoever_waits_hears_that_it_is_still_at_work",
    ],
    "the demo names commands in .venv/bin also where the environment is activated": [
        "tests/unit/test_demo.py::test_commands_stand_there_as_they_are_typed",
    ],
    "a health check in a container fails when the admin listener was moved": [
        "tests/test_packaging.py::test_the_health_check_follows_the_settings_of_the_broker",
    ],
    "the README counts APIs and names nouns that are others by now": [
        "tests/documents/test_claims.py::test_the_readme_names_every_noun_of_the_command",
        "tests/documents/test_claims.py::test_the_readme_counts_kafkas_commands_and_apis_right",
    ],
    "the tutorial about clusters shows commands that nobody ever ran": [
        "tests/documents/test_documents.py::test_what_a_document_says_works",
    ],
    "help texts end with '?.'": ["tests/unit/cli/test_main.py::test_help_texts_are_sentences"],
    "an error of a program under run_as comes with seven lines about runpy": [
        "tests/unit/compat/test_run_as.py::test_an_error_of_the_program_looks_as_if_python_had_run_it",
    ],
    "the asyncio example of confluent-kafka's README does not run on the shim": [
        "tests/client/test_compat_examples.py::test_the_readme_of_confluent_kafka_with_a_schema_registry",
        "tests/client/test_compat_schema_registry.py"
        "::test_programs_with_an_event_loop_have_the_same_client_and_serializers",
    ],
    "options of old notes (--zookeeper, --broker-list) are refused without a word of what to write today": [
        "tests/unit/cli/test_kafka_parser.py::test_an_option_of_old_notes_ends_with_what_to_write_today",
    ],
    "host:port:port is called an IPv6 address": ["tests/unit/test_values.py::test_a_bad_address_says_what_is_wrong"],
    "a broker alone is told that 'only 1 are registered'": [
        "tests/unit/cluster/test_placement.py::test_one_broker_is_told_as_one",
    ],
}


@pytest.mark.parametrize("friction", {**FRICTIONS, **FOUND_AGAIN})
def test_every_friction_has_a_test_that_is_there(friction: str) -> None:
    for name in {**FRICTIONS, **FOUND_AGAIN}[friction]:
        path, _, function = name.partition("::")
        assert function in _functions(ROOT / path), f"{name} is gone: which test keeps this away now?"


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_skipped_tests_give_their_reason(pytestconfig: pytest.Config) -> None:
    assert "s" in pytestconfig.getoption("reportchars")


# --- a fresh clone to the end of make demo is measured by `make bench-demo` -------------------------------------------


def test_a_silence_also_counts_before_the_first_line_and_after_the_last() -> None:
    assert longest_silence(Run([Line(7.0, "a"), Line(9.0, "b")], 0, 12.0)) == Silence(7.0, START, "a")
    assert longest_silence(Run([Line(1.0, "a"), Line(9.0, "b")], 0, 12.0)) == Silence(8.0, "a", "b")
    assert longest_silence(Run([Line(1.0, "a")], 0, 12.0)) == Silence(11.0, "a", END)


def test_what_is_too_silent_too_long_or_broken_is_a_fault() -> None:
    assert faults_of(Run([Line(9.0, "a"), Line(18.0, "b")], 0, 20.0)) == []
    assert faults_of(Run([Line(9.0, "  a"), Line(19.5, "b")], 0, 20.0)) == ["silent for 10.5 s (at most 10) after: a"]
    slow = Run([Line(float(second), "tick") for second in range(200)], 2, 200.0)
    assert faults_of(slow) == ["it ended with 2", "it took 200 s (at most 180 on a quiet machine)"]


def test_every_line_of_a_command_has_its_time(tmp_path: Path) -> None:
    program = "import sys; print('one', flush=True); print('two', file=sys.stderr); raise SystemExit(3)"
    heard: list[Line] = []
    done = run([sys.executable, "-c", program], tmp_path, heard.append)
    assert [line.text for line in done.lines] == ["one", "two"]
    assert heard == done.lines
    assert done.processor_s > 0
    assert done.code == 3
    assert 0.0 <= done.lines[0].at_s <= done.lines[1].at_s <= done.total_s
