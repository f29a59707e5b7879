"""Command lines of Kafka's tools, good ones and wrong ones, in the order in which they are run on a new cluster.

A scenario is a list of steps; each has a cluster of its own, or at least names of its own. `$SERVER` is the broker,
`$DIR` a directory with the files of FILES. How much of a step is compared:

    all      exit code, output, and the sentence of an error
    words    the same without order: lines and the words in them are sorted, because Java's order is by chance
    out      exit code and output: Apache's tool logs what it would tell as an error
    events   lines of JSON: their names, and what they say but for times; those of records and answers as sets
    code     only the exit code
"""

import shlex
from collections.abc import Mapping
from typing import NamedTuple


class Step(NamedTuple):
    """One command."""

    line: str
    stdin: str = ""
    compared: str = "all"
    until: str = ""
    """What must be printed, however often it is run: a cluster goes on working after it has answered."""
    gone: str = ""
    """What must not be printed any more, likewise: brokers hear of a deleted topic after it was answered for."""

    def is_reached(self, printed: str) -> bool:
        """Whether the cluster has come as far as the step wants it."""
        return self.until in printed and not (self.gone and self.gone in printed)

    @property
    def tool(self) -> str:
        return shlex.split(self.line)[0]

    def words(self, places: Mapping[str, str]) -> list[str]:
        """What stands behind the tool's name; `places` are the values of $SERVER and the like."""
        found = shlex.split(self.line)[1:]
        for name, text in places.items():
            found = [each.replace(name, text) for each in found]
        return found


FILES = {
    "offsets.json": '{"partitions": [{"topic": "log", "partition": 0, "offset": 2}], "version": 1}',
    "twice.json": '{"partitions": [{"topic": "t", "partition": 0, "offset": 2}, '
    '{"topic": "t", "partition": 0, "offset": 3}]}',
    "version9.json": '{"partitions": [], "version": 9}',
    "broken.json": "{",
    "elect.json": '{"partitions": [{"topic": "elections", "partition": 0}]}',
    "electtwice.json": '{"partitions": [{"topic": "e", "partition": 0}, {"topic": "e", "partition": 0}]}',
    "nothing.json": "{}",
    "move.json": '{"topics": [{"topic": "moving"}], "version": 1}',
    "assign.json": '{"version":1,"partitions":[{"topic":"moving","partition":0,"replicas":[1],"log_dirs":["any"]}]}',
    "assignwrong.json": '{"version":1,"partitions":[{"topic":"moving","partition":0,"replicas":[77]}]}',
    "plan.csv": "r,0,2\nr,1,1\n",
    "streams.csv": "in,0,2\nin,1,0\n",
    "client.properties": "client.id=from-the-file\n",
    "topic.properties": "retention.ms=60000\nsegment.bytes=1048576\n",
    "payloads.txt": "one\ntwo\nthree\n",
    "server.properties": "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
    "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
    "log.dirs=$DIR/storage\n",
}
B = "--bootstrap-server $SERVER"


def lines(tool: str, text: str, compared: str = "all") -> list[Step]:
    """A step for each line, after the tool and the address."""
    found = [line.strip() for line in text.strip().replace("\\\n", " ").splitlines()]
    return [Step(f"{tool} {B} {line}", compared=compared) for line in found]


TOPICS = [
    Step("kafka-topics", compared="all"),
    Step("kafka-topics --help"),
    Step("kafka-topics --version"),
    Step("kafka-topics --list"),
    Step("kafka-topics --zookeeper localhost:2181 --list"),
    Step(f"kafka-topics {B} --topic"),
    Step(f"kafka-topics {B} --list --describe"),
    Step(f"kafka-topics {B} --topic x"),
    *lines(
        "kafka-topics",
        """
        --list
        --create
        --create --topic first --partitions 2 --replication-factor 1
        --create --topic first
        --create --topic first --if-not-exists
        --create --topic=second --partitions=3 --config retention.ms=60000 --config cleanup.policy=compact,delete
        -create -topic third
        --create --topic with.dot_and --partitions 1
        --create --topic fourth --replica-assignment 1,1
        --create --topic fifth --replica-assignment 1:1
        --create --topic fifth --replica-assignment 1:2,1
        --create --topic fifth --partitions zero
        --create --topic fifth --partitions 0
        --create --topic fifth --replication-factor 0
        --create --topic fifth --replication-factor 3
        --create --topic fifth --config wrong
        --create --topic fifth --config no.such.setting=1
        --create --topic fifth --config retention.ms=soon
        --create --topic 'bad name'
        --create --topic fifth --partitions 1 --replica-assignment 1
        --create --topic fifth --if-exists
        --list
        --list --topic 'f.*'
        --list --exclude-internal
        --list --topic nothing
        --describe --topic first
        --describe --topic second
        --describe --topic 'first,third'
        --describe --topic nothing
        --describe --topic nothing --if-exists
        --describe --if-exists
        --describe --topics-with-overrides
        --describe --under-replicated-partitions
        --describe --unavailable-partitions
        --describe --under-min-isr-partitions
        --describe --at-min-isr-partitions --topic first
        --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ
        --describe --under-replicated-partitions --topics-with-overrides
        --describe --topic first --partition-size-limit-per-response 1
        --alter --topic first
        --alter --topic first --partitions 4
        --alter --topic first --partitions 4
        --alter --topic first --partitions 2
        --alter --topic nothing --partitions 2
        --alter --topic nothing --partitions 2 --if-exists
        --alter --topic first --config retention.ms=1
        --alter --topic first --partitions 5 --replication-factor 2
        --describe --topic first
        --delete --topic nothing
        --delete --topic nothing --if-exists
        --delete --topic first
        --delete --topic 'second|third'
        """,
    ),
    Step(f"kafka-topics {B} --delete-config retention.ms --list", gone="third"),
    *lines(
        "kafka-topics",
        """
        --list
        --command-config $DIR/client.properties --list
        --command-config $DIR/no.such.file --list
        """,
    ),
]
GROUPS = [
    Step("kafka-consumer-groups"),
    Step("kafka-consumer-groups --list"),
    Step("kafka-consumer-groups --validate-regex 'a.*b'"),
    Step("kafka-consumer-groups --validate-regex '['", compared="code"),
    Step(f"kafka-topics {B} --create --topic r --partitions 2"),
    Step(f"kafka-topics {B} --create --topic other"),
    Step(f"kafka-console-producer {B} --topic other", stdin="1\n2\n3\n4\n5\n"),
    Step(
        f"kafka-console-producer {B} --topic r --reader-property parse.key=true",
        stdin="a\t1\nb\t2\nc\t3\nd\t4\ne\t5\nf\t6\ng\t7\n",
    ),
    Step(f"kafka-console-consumer {B} --topic other --group readers --from-beginning --max-messages 3"),
    *lines(
        "kafka-consumer-groups",
        """
        --list
        --list --state
        --list --type
        --list --state --type
        --list --state empty
        --list --state stable
        --list --type classic
        --list --group readers
        --list --describe --group readers
        --describe
        --describe --group readers
        --describe --group readers --offsets
        --describe --group readers --members
        --describe --group readers --members --verbose
        --describe --group readers --state
        --describe --group readers --state --verbose
        --describe --group readers --state stable
        --describe --group readers --members --state
        --describe --all-groups
        --describe --group nobody
        --describe --group nobody --state
        --describe --group nobody --members
        --describe --group readers --all-groups
        --members --list
        --reset-offsets --group readers --topic other --to-earliest
        --reset-offsets --group readers --topic other --to-earliest --dry-run
        --reset-offsets --group readers --topic other --to-latest --execute
        --describe --group readers
        --describe --group readers --verbose
        --reset-offsets --group readers --topic other:0 --to-offset 2 --execute
        --reset-offsets --group readers --topic other:7 --to-offset 2 --dry-run
        --reset-offsets --group readers --topic other:x --to-offset 2 --dry-run
        --reset-offsets --group readers --topic gone --to-offset 2 --dry-run
        --reset-offsets --group readers --all-topics --shift-by 1 --dry-run
        --reset-offsets --group readers --all-topics --shift-by -1 --execute
        --reset-offsets --group readers --all-topics --to-current --export --dry-run
        --reset-offsets --group readers --topic other --to-datetime 2020-01-01T00:00:00.000 --dry-run
        --reset-offsets --group readers --topic other --to-datetime 2020-01-01 --dry-run
        --reset-offsets --group readers --topic other --by-duration PT5S --to-latest --dry-run
        --reset-offsets --group readers --topic other --by-duration P999D --dry-run
        --reset-offsets --group new --topic other --to-earliest --execute
        --reset-offsets --group readers --to-earliest --dry-run
        --reset-offsets --group readers --topic other --to-earliest --dry-run --execute
        --reset-offsets --topic other --to-earliest --dry-run
        """,
    ),
    Step(f"kafka-consumer-groups {B} --list --state wrong", compared="words"),
    Step(f"kafka-consumer-groups {B} --list --type wrong", compared="words"),
    Step(f"kafka-consumer-groups {B} --reset-offsets --group readers --topic other --dry-run", compared="words"),
    Step(f"kafka-consumer-groups {B} --reset-offsets --group readers --topic other:0 --to-offset 99", compared="out"),
    Step(f"kafka-consumer-groups {B} --reset-offsets --group fromfile --from-file $DIR/plan.csv --execute", "", "out"),
    *lines(
        "kafka-consumer-groups",
        """
        --describe --group fromfile
        --delete-offsets --group readers
        --delete-offsets --group nobody --topic other
        --delete-offsets --group fromfile --topic r:0
        --delete-offsets --group fromfile --topic gone
        --describe --group fromfile
        --delete --group readers --topic other
        --delete
        --delete --group readers
        --delete --group readers
        --delete --group nobody --group new
        --list --timeout 20000
        --timeout soon --list
        """,
    ),
    *lines(
        "kafka-groups",
        """
        --list
        --list --consumer
        --list --group-type classic
        --list --group-type wrong
        --list --share
        --list --protocol consumer
        --list --protocol connect
        --consumer --share --list
        --help
        --describe
        """,
    ),
    Step("kafka-groups --list"),
]
CONFIGS = [
    Step("kafka-configs"),
    Step("kafka-configs --describe --topic c"),
    Step("kafka-configs --zookeeper x --describe"),
    Step(f"kafka-topics {B} --create --topic c --config segment.bytes=1048576"),
    *lines(
        "kafka-configs",
        """
        --topic c
        --describe --alter --topic c
        --describe
        --describe --entity-type wrong
        --describe --entity-type topics --topic c
        --describe --entity-type topics --entity-type brokers
        --describe --topic c
        --describe --entity-type topics --entity-name c
        --describe --topic c --add-config a=b
        --describe --topic missing
        --describe --topic 'bad name'
        --describe --entity-type topics
        --describe --entity-type topics --entity-default
        --alter --topic c --add-config retention.ms=60000,cleanup.policy=[compact,delete]
        --describe --topic c
        --alter --topic c --delete-config retention.ms,segment.bytes
        --describe --topic c
        --alter --topic c --add-config-file $DIR/topic.properties
        --describe --topic c
        --alter --topic c --add-config retention.ms
        --alter --topic c --add-config retention.ms=soon
        --alter --topic c --add-config no.such=1
        --alter --topic c --add-config 'no such=1'
        --alter --topic missing --add-config retention.ms=1
        --alter --topic c
        --alter --entity-type topics --add-config retention.ms=1
        --alter --topic c --add-config a=b --add-config-file $DIR/topic.properties
        --describe --broker 1
        --describe --broker seven
        --describe --broker 7
        --describe --broker-defaults
        --alter --broker 1 --add-config log.cleaner.threads=2
        --alter --broker-defaults --add-config log.retention.ms=3600000
        --describe --broker 1
        --describe --entity-type brokers --entity-default
        --describe --entity-type brokers
        --alter --broker-defaults --delete-config log.retention.ms
        --alter --broker 1 --add-config broker.id=5
        --describe --broker-logger
        --describe --entity-type broker-loggers
        --describe --user alice
        --alter --user alice --add-config producer_byte_rate=1024,consumer_byte_rate=20000000
        --alter --user alice --client loader --add-config request_percentage=0.5
        --alter --client-defaults --add-config producer_byte_rate=4096
        --alter --user-defaults --add-config producer_byte_rate=1e9
        --alter --entity-type users --entity-name bob --entity-type clients --entity-default \\
            --add-config producer_byte_rate=7
        --describe --user alice
        --describe --user alice --client loader
        --describe --client-defaults
        --describe --user-defaults
        --describe --entity-type users --entity-name bob --entity-type clients --entity-default
        --alter --user alice --delete-config producer_byte_rate
        --alter --user alice --delete-config producer_byte_rate
        --describe --user alice
        --alter --user alice --add-config producer_byte_rate=many
        --alter --user alice --add-config no_such_rate=1
        --alter --client c --add-config no_such_rate=1
        --alter --entity-type users --add-config producer_byte_rate=1
        --alter --ip 10.0.0.1 --add-config connection_creation_rate=10
        --alter --ip 10.0.0.1 --add-config producer_byte_rate=10
        --describe --ip 10.0.0.1
        --describe --ip-defaults
        --alter --user carol --add-config SCRAM-SHA-256=[iterations=8192,password=secret-1]
        --alter --user carol --add-config SCRAM-SHA-512=[password=secret-2]
        --alter --user carol --add-config SCRAM-SHA-512=[iterations=1,password=secret-2]
        --alter --user-defaults --add-config SCRAM-SHA-512=[password=secret-2]
        --alter --user carol --add-config SCRAM-SHA-512=[password=x],producer_byte_rate=1
        """,
    ),
    # Apache's brokers give mechanisms in the order of a hash that differs from process to process.
    Step(f"kafka-configs {B} --describe --user carol", compared="words"),
    *lines(
        "kafka-configs",
        """
        --alter --user carol --delete-config SCRAM-SHA-256
        --alter --user carol --delete-config SCRAM-SHA-256
        --describe --user carol
        --describe --user nobody
        --describe --group nobody
        --alter --group readers --add-config consumer.session.timeout.ms=50000
        --describe --group readers
        --describe --client-metrics nothing
        --describe --entity-type client-metrics
        """,
    ),
    Step(f"kafka-configs {B} --describe --topic c --all"),
    Step(f"kafka-configs {B} --describe --entity-type users", compared="words"),
    Step(f"kafka-configs {B} --describe --entity-type users --entity-type clients", compared="words"),
]
CONSOLE = [
    Step("kafka-console-producer"),
    Step("kafka-console-consumer"),
    Step(f"kafka-console-producer {B}"),
    Step("kafka-console-producer --topic log"),
    Step("kafka-console-producer --bootstrap-server nowhere --topic log"),
    Step(f"kafka-topics {B} --create --topic log"),
    Step(f"kafka-console-producer {B} --topic log", stdin="one\ntwo\n\nfour\n"),
    Step(f"kafka-console-producer {B} --topic log --sync --request-required-acks 1", stdin="five\n"),
    Step(f"kafka-console-producer {B} --topic log --compression-codec", stdin="six\n"),
    Step(f"kafka-console-producer {B} --topic log --compression-codec zstd --timeout 5", stdin="seven\n"),
    Step(f"kafka-console-producer {B} --topic log --property parse.key=true", stdin="k\tv\n"),
    Step(f"kafka-console-producer {B} --topic log --property a=b --reader-property a=b"),
    Step(f"kafka-console-producer {B} --topic log --producer.config $DIR/client.properties", stdin="eight\n"),
    Step(
        f"kafka-console-producer {B} --topic log --reader-property parse.key=true --reader-property key.separator=: "
        "--reader-property parse.headers=true --reader-property null.marker=NULL",
        stdin="a:1,b:2\tkey:value\nNULL\tNULL:NULL\nc:\tx:y\n",
    ),
    Step(f"kafka-console-producer {B} --topic log --reader-property parse.key=true", stdin="no key\n"),
    Step(
        f"kafka-console-producer {B} --topic log --reader-property parse.key=true --reader-property ignore.error=true",
        stdin="no key\n",
    ),
    Step(f"kafka-console-producer {B} --topic log --reader-property headers.delimiter=,", stdin="x\n"),
    Step(f"kafka-console-producer {B} --topic log --line-reader no.such.Reader", stdin="x\n"),
    Step(f"kafka-console-producer {B} --topic log --compression-codec brotli", stdin="x\n", compared="code"),
    Step(f"kafka-console-producer {B} --topic log --timeout soon"),
    Step(f"kafka-console-consumer {B} --topic log --from-beginning --max-messages 12"),
    *lines(
        "kafka-console-consumer",
        """
        --topic log --partition 0 --offset 0 --max-messages 4
        --topic log --partition 0 --offset earliest --max-messages 1
        --topic log --partition 0 --offset 4 --max-messages 2 --property print.key=true --property print.offset=true
        --topic log --partition 0 --offset 7 --max-messages 5 --formatter-property print.key=true \\
            --formatter-property print.headers=true --formatter-property print.partition=true \\
            --formatter-property print.timestamp=true --formatter-property print.epoch=true \\
            --formatter-property print.delivery=true
        --topic log --partition 0 --offset 8 --max-messages 3 --formatter-property print.key=true \\
            --formatter-property key.separator=| --formatter-property line.separator=; \\
            --formatter-property null.literal=nil --formatter-property print.value=false
        --topic log --group g1 --from-beginning --max-messages 2
        --topic log --group g1 --max-messages 1
        --topic log --group g1 --consumer-property group.id=g2
        --topic log --group g1 --partition 0
        --topic log --partition 0 --offset -5
        --topic log --offset 5
        --topic log --partition 0 --offset 5 --from-beginning
        --include 'lo.' --from-beginning --max-messages 1
        --topic log --include x
        --topic log --partition zero
        --topic log --from-beginning --consumer-property auto.offset.reset=latest
        --topic log --consumer.config $DIR/client.properties --command-config $DIR/client.properties
        --topic log --consumer.config $DIR/client.properties --from-beginning --max-messages 1
        --topic log --formatter no.such.Formatter --max-messages 1
        --topic log --formatter org.apache.kafka.tools.consumer.NoOpMessageFormatter --from-beginning --max-messages 2
        --topic log --partition 0 --offset 0 --max-messages 1 \\
            --value-deserializer org.apache.kafka.common.serialization.StringDeserializer
        --topic log --from-beginning --max-messages 3 --isolation-level read_committed --enable-systest-events
        """,
    ),
    Step(f"kafka-console-consumer {B} --topic log --partition 0 --offset latest --timeout-ms 300", compared="out"),
    Step("kafka-get-offsets"),
    *lines(
        "kafka-get-offsets",
        """
        --topic log
        --topic log --time -2
        --topic log --time earliest
        --topic log --time 0
        --topic log --time 9999999999999
        --topic log --time max-timestamp
        --topic log --time soon
        --topic 'l.g' --partitions 0
        --topic log --partitions 0,x
        --topic log --partitions 9
        --topic missing
        --topic-partitions log:0-1,other:2
        --topic-partitions log:0 --topic log
        --topic-partitions 'log:a'
        --exclude-internal-topics
        --help
        """,
    ),
    Step("kafka-get-offsets --bootstrap-server nowhere --topic log"),
    Step("kafka-delete-records"),
    *lines(
        "kafka-delete-records",
        """
        --offset-json-file $DIR/offsets.json
        --offset-json-file $DIR/twice.json
        --offset-json-file $DIR/version9.json
        --offset-json-file $DIR/nothing.json
        --offset-json-file $DIR/broken.json
        """,
    ),
    Step(f"kafka-delete-records {B} --offset-json-file $DIR/no.such.file", compared="code"),
    Step(f"kafka-get-offsets {B} --topic log --time earliest"),
]
ACLS = [
    Step("kafka-acls"),
    Step("kafka-acls --list"),
    *lines(
        "kafka-acls",
        """
        --list --add
        --list
        --add --allow-principal User:alice --topic t
        --add --allow-principal User:alice --topic t
        --add --allow-principal User:alice --operation Read --operation Write --topic t --allow-host 10.0.0.1
        --add --deny-principal User:mallory --operation All --group g
        --add --allow-principal User:bob --producer --topic t2
        --add --allow-principal User:bob --consumer --topic t2 --group g2
        --add --allow-principal User:carol --operation Describe --topic pre --resource-pattern-type prefixed
        --add --allow-principal User:carol --operation Alter --cluster
        --add --allow-principal User:carol --operation Read --cluster
        --add --allow-principal User:dave --transactional-id tx --operation Write
        --add --allow-principal User:dave --operation Jump --topic t
        --add --topic t
        --add --allow-principal User:alice
        --add --allow-principal alice --topic t
        --add --allow-principal User:alice --topic t --resource-pattern-type any
        --add --allow-principal User:alice --topic t --resource-pattern-type odd
        --producer --add --allow-principal User:x
        --consumer --add --allow-principal User:x --topic t
        --producer --add --allow-principal User:x --topic t --operation Read
        --idempotent --add --allow-principal User:x --topic t
        --list --topic t
        --list --topic prefix --resource-pattern-type match
        --list --principal User:dave
        --list --producer
        --remove --topic none --force
        --remove --allow-principal User:alice --operation Read --topic t --allow-host 10.0.0.1 --force
        --remove --topic t --force
        --remove --principal User:x --topic t
        --list --topic t
        --list --cluster
        """,
        compared="words",
    ),
]
FIRST_SCENARIOS = {
    "topics": TOPICS,
    "groups": GROUPS,
    "configs": CONFIGS,
    "console": CONSOLE,
    "acls": ACLS,
}
_SHARES = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}
SETTINGS = {
    "acls": {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    },
    "shares": _SHARES,
    "share-console": _SHARES,
    # A member lives as long as the steps take, and has its tasks at once.
    "streams": {
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.max.session.timeout.ms": "600000",
        "group.streams.session.timeout.ms": "600000",
    },
}
"""Settings of the broker that a scenario needs."""
