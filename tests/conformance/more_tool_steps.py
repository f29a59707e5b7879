"""More command lines of Kafka's tools (tool_steps.py has the first ones): operators' commands, loads, files.

`!produce` is no tool: it writes the records of tool_files.py, whose formatters are compared.
"""

from tests.conformance.tool_steps import B, Step, lines

MOVING = [
    Step(f"kafka-topics {B} --create --topic elections --partitions 2"),
    Step(f"kafka-topics {B} --create --topic moving"),
    Step(f"kafka-console-producer {B} --topic moving", stdin="one\ntwo\n"),
    Step("kafka-leader-election"),
    Step("kafka-leader-election --election-type preferred --all-topic-partitions"),
    *lines(
        "kafka-leader-election",
        """
        --election-type preferred
        --election-type preferred --topic elections
        --election-type preferred --topic elections --partition 0
        --election-type preferred --topic elections --partition 9
        --election-type preferred --all-topic-partitions
        --election-type unclean --topic elections --partition 1
        --election-type preferred --all-topic-partitions --partition 1
        --election-type preferred --path-to-json-file $DIR/elect.json
        --election-type preferred --path-to-json-file $DIR/electtwice.json
        --election-type preferred --path-to-json-file $DIR/nothing.json
        --election-type preferred --topic elections --partition 0 --admin.config $DIR/client.properties
        --election-type preferred --topic t --partition 0 --admin.config $DIR/a --command-config $DIR/a
        """,
    ),
    Step(f"kafka-leader-election {B} --election-type odd --all-topic-partitions"),
    Step("kafka-log-dirs"),
    Step("kafka-log-dirs --describe"),
    Step(f"kafka-log-dirs {B}"),
    Step(f"kafka-log-dirs {B} --describe --broker-list 7"),
    Step(f"kafka-log-dirs {B} --describe --broker-list 1 --topic-list moving"),
    Step(f"kafka-log-dirs {B} --describe --topic-list nothing"),
    Step("kafka-reassign-partitions"),
    Step("kafka-reassign-partitions --list"),
    *lines(
        "kafka-reassign-partitions",
        """
        --list
        --list --verify
        --list --additional
        --verify
        --generate --topics-to-move-json-file $DIR/move.json
        --generate --topics-to-move-json-file $DIR/move.json --broker-list 1
        --generate --topics-to-move-json-file $DIR/move.json --broker-list 1,1
        --generate --topics-to-move-json-file $DIR/broken.json --broker-list 1
        --execute --reassignment-json-file $DIR/assign.json
        --execute --reassignment-json-file $DIR/assign.json --throttle 1000000
        --execute --reassignment-json-file $DIR/assignwrong.json
        --execute --reassignment-json-file $DIR/nothing.json
        --verify --reassignment-json-file $DIR/assign.json --preserve-throttles
        --verify --reassignment-json-file $DIR/assign.json
        --verify --reassignment-json-file $DIR/assignwrong.json --preserve-throttles
        --cancel --reassignment-json-file $DIR/assign.json
        --execute --reassignment-json-file $DIR/assign.json --bootstrap-controller x:1
        """,
    ),
]
TRANSACTIONS = [
    Step(f"kafka-topics {B} --create --topic moving"),
    Step(f"kafka-console-producer {B} --topic moving", stdin="one\ntwo\n"),
    Step("kafka-transactions", compared="code"),
    Step(f"kafka-transactions {B}", compared="code"),
    *lines(
        "kafka-transactions",
        """
        list
        describe --transactional-id nobody
        find-hanging
        find-hanging --partition 0 --broker-id 1
        find-hanging --topic moving
        find-hanging --broker-id 1
        abort --topic moving --partition 0
        abort --topic moving --partition 0 --start-offset 7
        abort --topic moving --partition 0 --producer-id 7
        """,
    ),
    Step(
        f"kafka-producer-perf-test {B} --topic moving --num-records 20 --record-size 10 --throughput -1 "
        "--transactional-id tx"
    ),
    Step(f"kafka-transactions {B} list", until="CompleteCommit"),
    Step(f"kafka-transactions {B} describe --transactional-id tx", until="CompleteCommit"),
    Step(f"kafka-transactions {B} describe-producers --topic moving --partition 0", compared="code"),
    Step(f"kafka-transactions {B} forceTerminateTransaction --transactionalId tx"),
]
CLUSTER = [
    Step(f"kafka-cluster cluster-id {B}"),
    Step(f"kafka-cluster cluster-id {B} --config $DIR/client.properties"),
    Step(f"kafka-cluster unregister {B} --id 9"),
    Step(f"kafka-cluster list-endpoints {B}"),
    Step("kafka-features", compared="code"),
    Step("kafka-features describe"),
    Step(f"kafka-features {B} describe"),
    Step(f"kafka-features {B} describe --node-id -4"),
    Step(f"kafka-features {B} upgrade"),
    Step(f"kafka-features {B} upgrade --feature a"),
    Step(f"kafka-features {B} upgrade --feature no.such=1"),
    Step(f"kafka-features {B} upgrade --feature no.such=1 --feature no.such=2"),
    Step(f"kafka-features {B} disable --feature no.such --dry-run"),
    Step(f"kafka-features {B} upgrade --release-version 9.9"),
    Step("kafka-features version-mapping"),
    Step("kafka-features version-mapping --release-version 3.9"),
    Step("kafka-features version-mapping --release-version 9.9"),
    Step("kafka-features feature-dependencies --feature group.version=1 --feature metadata.version=22"),
    Step("kafka-features feature-dependencies --feature eligible.leader.replicas.version=1"),
    Step("kafka-features feature-dependencies --feature no.such=1"),
    Step("kafka-storage", compared="code"),
    Step("kafka-storage version-mapping -r 4.1"),
    Step("kafka-storage random-uuid", compared="code"),
    Step("kafka-storage info -c $DIR/server.properties"),
    Step("kafka-storage format -c $DIR/server.properties -t any-name", compared="code"),
    Step("kafka-storage info -c $DIR/server.properties"),
    Step("kafka-storage format -c $DIR/server.properties -t any-name", compared="code"),
    Step("kafka-storage format -c $DIR/server.properties -t any-name --ignore-formatted"),
    Step("kafka-storage format -c $DIR/no.such.file -t any-name", compared="code"),
    Step("kafka-storage format -c $DIR/server.properties", compared="code"),
    Step("kafka-client-metrics"),
    *lines(
        "kafka-client-metrics",
        """
        --list
        --describe
        --describe --name none
        --alter
        --alter --name m --interval soon
        --alter --name m --interval 60000 --metrics org.apache.kafka.consumer. --match client_id=a.*
        --list
        --describe --name m
        --delete
        --delete --name m
        --describe --name m --interval 5
        """,
    ),
    Step("kafka-broker-api-versions"),
]
TOKENS = [
    Step("kafka-delegation-tokens"),
    *lines(
        "kafka-delegation-tokens",
        """
        --create --describe
        --create
        --create --command-config $DIR/client.properties
        --describe --command-config $DIR/client.properties
        --create --command-config $DIR/client.properties --max-life-time-period -1
        --renew --command-config $DIR/client.properties
        --renew --command-config $DIR/client.properties --hmac abcd --renew-time-period -1
        --describe --hmac abcd --command-config $DIR/client.properties
        """,
    ),
]
PERFORMANCE = [
    Step(f"kafka-topics {B} --create --topic perf"),
    Step("kafka-producer-perf-test", compared="code"),
    Step(f"kafka-producer-perf-test {B} --topic perf", compared="code"),
    *lines(
        "kafka-producer-perf-test",
        """
        --topic perf --num-records 100 --record-size 10 --throughput -1
        --topic perf --num-records 50 --payload-monotonic --throughput 1000
        --topic perf --num-records 50 --payload-file $DIR/payloads.txt --throughput -1
        --topic perf --num-records 50 --record-size 10 --throughput -1 --warmup-records 20
        --topic perf --num-records 50 --record-size 10 --throughput -1 --producer-props linger.ms=1 batch.size=100
        --topic perf --num-records 50 --record-size 10 --throughput -1 --command-property acks=1
        --topic perf --num-records 50 --record-size 10 --throughput -1 --transaction-duration-ms 1000
        """,
    ),
    *lines(
        "kafka-producer-perf-test",
        """
        --topic perf --num-records 0 --record-size 10 --throughput -1
        --topic perf --num-records 5 --record-size 10 --throughput -1 --warmup-records 5
        --topic perf --num-records 5 --throughput -1
        --topic perf --num-records 5 --record-size 10 --payload-monotonic --throughput -1
        --topic perf --num-records 5 --record-size 10 --throughput -1 --command-property a
        """,
        compared="code",
    ),
    Step("kafka-producer-perf-test --topic perf --num-records 5 --record-size 1 --throughput -1", compared="code"),
    Step("kafka-consumer-perf-test"),
    *lines(
        "kafka-consumer-perf-test",
        """
        --topic perf
        --num-records 10
        --topic perf --num-records 100
        --topic perf --messages 100 --hide-header
        --topic perf --num-records 100000 --timeout 300
        --include 'pe..' --num-records 10
        --topic perf --include x --num-records 1
        --topic perf --num-records 10 --reporting-interval 0
        """,
    ),
    Step(f"kafka-consumer-perf-test {B} --topic perf --num-records 9 --show-detailed-stats --hide-header", "", "code"),
    Step("kafka-e2e-latency"),
    *lines(
        "kafka-e2e-latency",
        """
        --topic e2e --num-records 3 --producer-acks 1 --record-size 10
        --topic e2e --num-records 3 --producer-acks all --record-size 10 --num-headers 2 --record-header-size 5
        --topic e2e --num-records 0 --producer-acks 1 --record-size 10
        --topic e2e --num-records 3 --producer-acks 0 --record-size 10
        --topic e2e
        """,
    ),
    Step("kafka-e2e-latency $SERVER e2e 2 1 10"),
    Step("kafka-e2e-latency $SERVER e2e 2"),
]
_FORMATTERS = "org.apache.kafka.tools.consumer."
STORED = [
    *(Step(f"kafka-topics {B} --create --topic {name}") for name in ("groups", "tx", "share")),
    Step("!produce"),
    *lines(
        "kafka-console-consumer",
        f"""
        --topic groups --from-beginning --max-messages 18 --formatter {_FORMATTERS}OffsetsMessageFormatter
        --topic groups --from-beginning --max-messages 18 --formatter {_FORMATTERS}GroupMetadataMessageFormatter
        --topic groups --from-beginning --max-messages 18 --formatter {_FORMATTERS}ShareGroupMessageFormatter
        --topic tx --from-beginning --max-messages 4 --formatter {_FORMATTERS}TransactionLogMessageFormatter
        --topic share --from-beginning --max-messages 2 \\
            --formatter {_FORMATTERS}group.share.ShareGroupStateMessageFormatter
        """,
    ),
    Step(
        f"kafka-console-consumer {B} --topic groups --from-beginning --max-messages 2 "
        f"--formatter {_FORMATTERS}TransactionLogMessageFormatter",
        compared="out",
    ),
]
_LOG = "$DIR/log-0/00000000000000000000"
FILES_OF_A_LOG = [
    Step("kafka-dump-log"),
    Step("kafka-dump-log --print-data-log"),
    Step("kafka-dump-log --files"),
    *(
        Step(f"kafka-dump-log --files {_LOG}.log {options}".rstrip())
        for options in (
            "",
            "--deep-iteration",
            "--print-data-log",
            "--print-data-log --skip-record-metadata",
            "--deep-iteration --max-bytes 10",
        )
    ),
    Step(f"kafka-dump-log --files {_LOG}.log --value-decoder-class no.such.Decoder", compared="out"),
    Step(f"kafka-dump-log --files {_LOG}.log --offsets-decoder --transaction-log-decoder", compared="out"),
    Step(f"kafka-dump-log --files {_LOG}.index"),
    Step(f"kafka-dump-log --files {_LOG}.index --index-sanity-check"),
    Step(f"kafka-dump-log --files {_LOG}.index,{_LOG}.log --verify-index-only"),
    Step(f"kafka-dump-log --files {_LOG}.timeindex"),
    Step(f"kafka-dump-log --files {_LOG}.timeindex --verify-index-only"),
    Step("kafka-dump-log --files $DIR/log-0/no.such.file", compared="code"),
    Step("kafka-dump-log --files $DIR/client.properties", compared="code"),
    Step("kafka-dump-log --files $DIR/groups-0/00000000000000000000.log --offsets-decoder"),
    Step("kafka-dump-log --files $DIR/tx-0/00000000000000000000.log --transaction-log-decoder"),
    Step("kafka-dump-log --files $DIR/share-0/00000000000000000000.log --share-group-state-decoder"),
]
VERIFIABLE = [
    Step(f"kafka-topics {B} --create --topic numbers"),
    Step("kafka-verifiable-producer", compared="code"),
    Step("kafka-verifiable-producer --topic numbers", compared="code"),
    Step("kafka-verifiable-consumer", compared="code"),
    Step("kafka-verifiable-consumer --topic numbers", compared="code"),
    *lines(
        "kafka-verifiable-producer",
        """
        --topic numbers --max-messages 5
        --topic numbers --max-messages 3 --value-prefix 7 --repeating-keys 2 --acks 1 --throughput 1000
        --topic numbers --max-messages 2 --message-create-time 1000 --command-config $DIR/client.properties
        --topic numbers --max-messages 1 --producer.config $DIR/client.properties
        """,
        compared="events",
    ),
    *lines(
        "kafka-verifiable-consumer",
        """
        --topic numbers --group-id readers --max-messages 5 --verbose
        --topic numbers --group-id readers --max-messages 3
        --topic numbers --group-id again --max-messages 11 --group-protocol consumer
        --topic numbers --group-id third --max-messages 2 --enable-autocommit --consumer.config $DIR/client.properties
        """,
        compared="events",
    ),
    Step("kafka-replica-verification"),
    Step("kafka-replica-verification --topics-include x"),
    Step("kafka-replica-verification --broker-list nowhere"),
    Step("kafka-replica-verification --broker-list $SERVER --topics-include nothing", compared="code"),
    Step("kafka-replica-verification --broker-list $SERVER --no-such"),
]
MORE_SCENARIOS = {
    "moving": MOVING,
    "transactions": TRANSACTIONS,
    "cluster": CLUSTER,
    "tokens": TOKENS,
    "performance": PERFORMANCE,
    "stored": STORED,
    "files": FILES_OF_A_LOG,
    "verifiable": VERIFIABLE,
}
