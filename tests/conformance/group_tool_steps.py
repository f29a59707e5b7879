"""Command lines of the tools for share groups and for the quorum of controllers; see tool_steps.py."""

from tests.conformance.tool_steps import B, Step, lines
from tests.patience import wait_until

from ottla import ShareConsumer
from ottla.client.admin.admin import Admin
from ottla.errors import GroupIdNotFound

SHARES = [
    Step(f"kafka-share-groups {B} --list --state nonsense", compared="words"),
    Step(f"kafka-topics {B} --create --topic s --partitions 2"),
    Step(f"kafka-topics {B} --create --topic t"),
    # By a key, so that they are all in partition 0.
    Step(f"kafka-console-producer {B} --topic s --reader-property parse.key=true", stdin="k\tone\nk\ttwo\nk\tthree\n"),
    Step("kafka-share-groups"),
    Step("kafka-share-groups --version"),
    Step("kafka-share-groups --list"),
    Step(f"kafka-share-groups {B} --zookeeper localhost:2181 --list"),
    *lines(
        "kafka-share-groups",
        """
        --list
        --list --state
        --list --describe
        --group g
        --describe
        --describe --group g --members --state
        --describe --group g --state Empty
        --describe --group g --all-groups
        --describe --group g --topic s
        --list --members
        --describe --group g
        --describe --group g --members
        --describe --group g --state
        --delete
        --delete --group g --all-groups
        --delete --group g --topic s
        --delete --group nobody
        --delete-offsets --group g
        --delete-offsets --group g --topic s
        --reset-offsets --group g --topic s --to-earliest
        --reset-offsets --group g --topic s --to-earliest --execute --dry-run
        --reset-offsets --topic s --to-earliest --execute
        --reset-offsets --group g --topic s --to-earliest --to-latest --execute
        --reset-offsets --group g --topic s:0 --execute
        --reset-offsets --group g --topic nothing --to-earliest --execute
        --reset-offsets --group g --topic s:7 --to-earliest --execute
        --reset-offsets --group g --topic s --to-datetime yesterday --execute
        --reset-offsets --group g --topic s --to-latest --dry-run
        --describe --group g
        """,
    ),
    Step("!share"),
    Step(f"kafka-share-groups {B} --list", until="g"),
    Step(f"kafka-share-groups {B} --reset-offsets --group g --topic s --to-earliest --execute"),
    *lines(
        "kafka-share-groups",
        """
        --list
        --list --state
        --list --state Empty
        --list --state stable,dead
        --describe --group g
        --describe --group g --offsets --verbose
        --describe --group g --members
        --describe --group g --state
        --describe --group g --state --verbose
        --describe --all-groups
        --describe --group g --group nobody
        --reset-offsets --group g --topic s:1 --to-latest --execute
        --reset-offsets --group g --all-topics --to-datetime 2020-01-01T00:00:00.000 --dry-run
        --reset-offsets --group g --all-topics --to-latest --execute
        --describe --group g
        --delete-offsets --group g --topic s --topic nothing
        --delete-offsets --group g --topic t
        --delete-offsets --group nobody --topic t
        --describe --group g
        --delete --group g --group nobody
        --list
        --delete --all-groups
        """,
    ),
    Step(f"kafka-groups {B} --list --share"),
]
SHARE_CONSOLE = [
    Step("kafka-console-share-consumer"),
    Step("kafka-console-share-consumer --version"),
    Step("kafka-console-share-consumer --topic log"),
    Step(f"kafka-topics {B} --create --topic log"),
    Step(
        f"kafka-console-producer {B} --topic log --reader-property parse.key=true",
        stdin="a\tone\nb\ttwo\nc\tthree\nd\tfour\ne\tfive\nf\tsix\n",
    ),
    *(
        Step(f"kafka-configs {B} --alter --group {group} --add-config share.auto.offset.reset=earliest")
        for group in ("console-share-consumer", "g1", "g2")
    ),
    *lines(
        "kafka-console-share-consumer",
        """
        --group g1
        --topic log --reject --release
        --topic log --from-beginning
        --topic log --group g1 --consumer-property group.id=g2
        --topic log --consumer-property a=b --command-property a=b
        --topic log --consumer-config $DIR/client.properties --command-config $DIR/client.properties
        --topic log --property a=b --formatter-property a=b
        --topic log --formatter no.such.Formatter --max-messages 1
        --topic log --max-messages 1
        --topic log --group g1 --max-messages 2
        --topic log --group g1 --max-messages 1 --release
        --topic log --group g1 --max-messages 1 --reject --consumer-property client.id=me
        --topic log --group g1 --max-messages 1 --consumer-config $DIR/client.properties
        --topic log --group g1 --max-messages 2 --enable-systest-events
        --topic log --group g2 --max-messages 6 --formatter-property print.key=true \\
            --formatter-property print.headers=true --formatter-property print.partition=true \\
            --formatter-property print.timestamp=true --formatter-property print.epoch=true \\
            --formatter-property print.delivery=true --formatter-property print.offset=true
        """,
    ),
    Step(f"kafka-console-share-consumer {B} --topic log --max-messages many", compared="out"),
    Step(f"kafka-console-producer {B} --topic log", stdin="seven\neight\n"),
    Step(
        f"kafka-console-share-consumer {B} --topic log --group g1 --max-messages 1 "
        "--value-deserializer org.apache.kafka.common.serialization.LongDeserializer",
        compared="out",
    ),
    Step(
        f"kafka-console-share-consumer {B} --topic log --group g1 --max-messages 1 --reject-message-on-error "
        "--value-deserializer org.apache.kafka.common.serialization.LongDeserializer",
        compared="out",
    ),
    Step(f"kafka-console-share-consumer {B} --topic log --group g1 --max-messages 1 --property print.key=true"),
    Step(f"kafka-console-share-consumer {B} --topic log --group g1 --timeout-ms 500", compared="out"),
    Step(f"kafka-share-groups {B} --describe --group g1"),
]
QUORUM = [
    Step("kafka-metadata-quorum", compared="code"),
    Step("kafka-metadata-quorum --help", compared="code"),
    Step("kafka-metadata-quorum describe --status", compared="code"),
    Step(f"kafka-metadata-quorum {B}", compared="code"),
    *lines(
        "kafka-metadata-quorum",
        """
        describe
        describe --status --replication
        describe --status --human-readable
        describe --status
        describe --replication
        describe --replication --human-readable
        """,
    ),
    Step(f"kafka-metadata-quorum {B} --command-config $DIR/no.such.file describe --status", compared="code"),
]


def join_share_group(server: str) -> None:
    """A share group g that looks after the partitions of topic s, and has no members any more."""
    settings = {"bootstrap.servers": server}
    with Admin(settings) as admin:
        with ShareConsumer("s", group_id="g", bootstrap_servers=server) as consumer:
            wait_until(lambda: consumer.poll(0.1) is not None and _is_placed(admin))
        wait_until(lambda: admin.describe_share_groups(["g"])["g"].state == "Empty")


def _is_placed(admin: Admin) -> bool:
    try:
        found = admin.list_share_group_offsets("g")
    except GroupIdNotFound:
        return False  # it has not joined yet
    return len(found) == 2  # Apache's brokers keep where it starts only when something was acknowledged


GROUP_SCENARIOS = {"shares": SHARES, "share-console": SHARE_CONSOLE, "quorum": QUORUM}
