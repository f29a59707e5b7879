"""`ottla pipeline replay`: dead letters back into their topics after a repair, each once; shown first."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import add_format, confirmed, output_of, sentences
from ottla.cli.output import OK, Failure
from ottla.cli.pipelines import Verbs, add_file, add_verb, wrong_files

if TYPE_CHECKING:
    from ottla.spark.pipelines.plan import Plan
    from ottla.spark.pipelines.replaying import Letter
    from ottla.spark.pipelines.running import Loaded

EXAMPLES: Final = """\
examples:
  ottla pipeline replay --dry-run              how many dead letters wait, by step and rule
  ottla pipeline replay                        all of them, into the topics that they came from
  ottla pipeline replay --rule has_user        those of one rule
  ottla pipeline replay --to clicks-repaired   into another topic
"""


def add_replay(verbs: Verbs) -> None:
    replay = add_verb(verbs, "replay", "send dead letters back to where they came from, once", run_replay, EXAMPLES)
    add_file(replay)
    replay.add_argument("--rule", metavar="NAME", help="only letters of this rule")
    replay.add_argument("--step", metavar="NAME", help="only letters of this source or step")
    replay.add_argument("--to", metavar="TOPIC", help="into this topic instead")
    replay.add_argument("--yes", action="store_true", help="do it without asking")
    replay.add_argument("--dry-run", action="store_true", help="only show it")
    add_format(replay)


def run_replay(options: argparse.Namespace) -> int:
    from pathlib import Path

    from ottla.cli.pipelines import chosen_parameters, plan_of
    from ottla.spark.pipelines.replaying import Choice, Replay
    from ottla.spark.pipelines.running import find_file

    out = output_of(options)
    with sentences(), wrong_files():
        loaded, plan = plan_of(
            find_file(options.file, Path.cwd()), options.bootstrap_server, chosen_parameters(options)
        )
        settings, topic = _letters_of(loaded, plan)
        steps, decoded = _incomplete(loaded)
        with Replay(settings, plan.name, topic, steps=steps, decoded=decoded) as replay:
            letters = replay.waiting(Choice(options.rule, options.step))
            out.table(["STEP", "RULE", "LETTERS", "INTO"], _rows(letters, options.to))
            if options.dry_run or not letters:
                return OK
            if not confirmed(f"Replay {len(letters)} dead letters of {plan.name}?", yes=options.yes):
                return OK
            sent, missing = replay.send(letters, options.to)
    gone = f"; {missing} stay, because their records are gone from their topics" if missing else ""
    out.line(f"{plan.name}: {sent} dead letters are replayed{gone}")
    return OK


def _letters_of(loaded: Loaded, plan: Plan) -> tuple[dict[str, object], str]:
    """The topic of dead letters, and the settings of its clients."""
    from ottla.spark.sink.options import SinkOptions

    letters = loaded.graph.pipeline.dead_letters
    flow = next((flow for flow in plan.flows if flow.dead_letters_of is not None), None)
    if letters is None or flow is None:
        raise Failure(f"{plan.name} has no dead letters")
    if letters.topic is None:
        raise Failure(
            f"{plan.name} writes dead letters into files: read {letters.files} with Spark, and write them back"
        )
    return SinkOptions.parse(flow.target.options, streaming=True).client_settings("admin"), letters.topic


def _incomplete(loaded: Loaded) -> tuple[list[str], list[str]]:
    """Steps, whose letters are rows, and sources whose letters have no value, because the connector decodes it."""
    from ottla.spark.pipelines.topic_columns import is_decoded

    pipeline = loaded.graph.pipeline
    decoded = [name for name, source in pipeline.sources.items() if source.is_topic and is_decoded(source)]
    return list(pipeline.steps), decoded


def _rows(letters: Sequence[Letter], to: str | None) -> list[tuple[object, ...]]:
    counted = Counter(
        (letter.known.get("step"), letter.known.get("rule"), to or letter.known.get("topic")) for letter in letters
    )
    return [(step, rule, count, into) for (step, rule, into), count in counted.items()]
