"""The list of Kafka's commands, and how one is started.

    kafka-topics --bootstrap-server localhost:9092 --list

1. Every command is the same program under another name: the name says which file of this package runs. A name may end
   in `.sh`, as Apache's do, so that `ottla install-commands --sh` can make links.
2. Only the file of that command is loaded.
3. A command ends with 0, or with 1 whatever went wrong, as Apache's end; 130 after Ctrl-C and 141 into a closed pipe.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from ottla.cli.collecting import collect_rarely
from ottla.cli.output import FAILED, finish

TOOLS: Final = {
    "kafka-topics": ("topics", "make, list, describe, change and delete topics"),
    "kafka-consumer-groups": ("consumer_groups", "consumer groups: members, lag, offsets"),
    "kafka-share-groups": ("share_groups", "share groups: members, where they start, lag"),
    "kafka-streams-groups": ("streams_groups", "groups of Kafka Streams: members, tasks, lag, offsets"),
    "kafka-configs": ("configs", "settings of topics, brokers, groups; quotas and users"),
    "kafka-console-producer": ("console_producer", "write records, one for each line"),
    "kafka-console-consumer": ("console_consumer", "read records"),
    "kafka-console-share-consumer": ("console_share_consumer", "read records as a member of a share group"),
    "kafka-get-offsets": ("get_offsets", "where partitions begin and end"),
    "kafka-acls": ("acls", "access rules: who may do what"),
    "kafka-producer-perf-test": ("producer_perf_test", "how fast records are written"),
    "kafka-consumer-perf-test": ("consumer_perf_test", "how fast records are read"),
    "kafka-e2e-latency": ("e2e_latency", "how long a record takes from producer to consumer"),
    "kafka-groups": ("groups", "list groups of every kind"),
    "kafka-reassign-partitions": ("reassign_partitions", "move partitions to other brokers or directories"),
    "kafka-leader-election": ("leader_election", "let leaders be elected"),
    "kafka-log-dirs": ("log_dirs", "which partitions are in which directories"),
    "kafka-delete-records": ("delete_records", "delete the oldest records of partitions"),
    "kafka-dump-log": ("dump_log", "what is in the files of a log"),
    "kafka-transactions": ("transactions", "open and hanging transactions"),
    "kafka-delegation-tokens": ("delegation_tokens", "tokens that stand for a login"),
    "kafka-features": ("features", "levels of features"),
    "kafka-metadata-quorum": ("metadata_quorum", "who leads and follows in the quorum of controllers"),
    "kafka-metadata-shell": ("metadata_shell", "look around in a snapshot of the metadata"),
    "kafka-cluster": ("cluster_tool", "the cluster's id and endpoints"),
    "kafka-broker-api-versions": ("broker_api_versions", "which requests brokers speak"),
    "kafka-storage": ("storage", "format data directories, and look at them"),
    "kafka-client-metrics": ("client_metrics", "which metrics clients are asked for"),
    "kafka-verifiable-producer": ("verifiable_producer", "write numbers and tell of each as JSON"),
    "kafka-verifiable-consumer": ("verifiable_consumer", "read as a member of a group and tell of each event as JSON"),
    "kafka-replica-verification": ("replica_verification", "read every replica, and tell where they differ"),
    "kafka-server-start": ("server_start", "start a broker"),
    "kafka-server-stop": ("server_stop", "stop the brokers of this machine"),
    "zookeeper-shell": ("zookeeper_shell", "look at znodes and change them"),
    "zookeeper-server-start": ("zookeeper_start", "start a ZooKeeper for development"),
    "zookeeper-server-stop": ("zookeeper_stop", "stop the ZooKeepers of this machine"),
}
"""Command: the file of this package that runs it, and what it is for."""


def command() -> int:
    """The program: its name is the command."""
    collect_rarely()
    code = main(sys.argv[0], sys.argv[1:])
    gc.freeze()  # the interpreter would look through everything for garbage before it gives everything back
    return code


def main(program: str, words: Sequence[str]) -> int:
    """Run a command by the path or name it was called with; returns the exit code."""
    name = tool_name(program)
    if name not in TOOLS:
        print(f"{name} is none of Kafka's commands; there is {', '.join(TOOLS)}", file=sys.stderr)
        return FAILED
    return finish(lambda: _run(name, list(words)))


def tool_name(program: str) -> str:
    """The command of a path: without directories, and without .sh, .py or .exe."""
    name = program.replace("\\", "/").rpartition("/")[2]
    stem, dot, ending = name.rpartition(".")
    return stem if dot and ending in ("sh", "py", "exe") else name


def _run(name: str, words: list[str]) -> int:
    from ottla.cli.kafka.ends import ToolEnded, WrongUsage
    from ottla.cli.output import Failure
    from ottla.errors import OttlaError

    module = import_module(f"ottla.cli.kafka.{TOOLS[name][0]}")
    try:
        code: int = module.run(words)
    except ToolEnded as end:
        return end.code
    except WrongUsage as mistake:
        print(mistake, file=sys.stderr)
        return FAILED
    except (OttlaError, Failure, TimeoutError) as error:
        from ottla.cli.kafka.java_errors import described

        print(described(error), file=sys.stderr)
        return FAILED
    return code
