"""Two Apache Kafka brokers on loopback, made to be listened to.

Node 1 is controller and broker, node 2 a broker. Every listener advertises its own port plus 100, where record.py
sits: so whatever a client, a broker or the controller sends passes the recorder first. Wide open and with throw-away
secrets; it lives as long as this program and keeps nothing.

    python cluster.py --jars DIR_WITH_KAFKA_JARS --directory EMPTY_DIR [--inter-broker-protocol 2.4]

With --inter-broker-protocol it is a cluster of old: Kafka 3.9 on ZooKeeper, whose brokers talk to each other in the
versions of that release (the jars must be 3.9's). Clients reach it without the recorder, on the listeners' own ports.

It says "ready" when it is. Stop it with SIGTERM: node 2 then leaves, comes back and leaves again before the rest stops,
because a controlled shutdown and a replica that catches up have requests of their own.
"""

import argparse
import contextlib
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

CLUSTER_ID = "b3R0bGEtZ29sZGVuLTAwMQ"
PORTS = {1: 41010, 2: 41020}
RECORDER_OFFSET = 100
ZOOKEEPER_PORT = 41009
LISTENERS = {"PLAINTEXT": 1, "SASL_PLAINTEXT": 2, "INTERNAL": 3, "CONTROLLER": 4}
START_LIMIT_S = 90
CATCH_UP_S = 6

COMMON = """
inter.broker.listener.name=INTERNAL
num.partitions=2
default.replication.factor=1
offsets.topic.replication.factor=2
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.cleaner.dedupe.buffer.size=2097152
num.network.threads=2
num.io.threads=2
"""

KRAFT = """
controller.quorum.voters=1@127.0.0.1:41114
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
 user_admin="golden-secret";
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule \
 required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule \
 required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
delegation.token.secret.key=golden-secret
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
group.coordinator.rebalance.protocols=classic,consumer,share,streams
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=500
group.share.min.heartbeat.interval.ms=500
group.share.heartbeat.interval.ms=500
group.streams.min.heartbeat.interval.ms=500
group.streams.heartbeat.interval.ms=500
"""

ZOOKEEPER = f"""
zookeeper.connect=127.0.0.1:{ZOOKEEPER_PORT}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT
controlled.shutdown.enable=true
"""


def kraft_properties(node: int, directory: Path) -> str:
    roles = "broker,controller" if node == 1 else "broker"
    names = [name for name in LISTENERS if name != "CONTROLLER" or node == 1]
    reporter = "metric.reporters=TelemetrySink\n"
    identity = f"node.id={node}\nprocess.roles={roles}\n"
    return identity + listeners(node, names, recorded=names) + reporter + log_dirs(node, directory) + COMMON + KRAFT


def zookeeper_properties(node: int, directory: Path, protocol: str) -> str:
    identity = f"broker.id={node}\ninter.broker.protocol.version={protocol}\nlog.message.format.version={protocol}\n"
    named = listeners(node, ["PLAINTEXT", "INTERNAL"], recorded=["INTERNAL"])
    return identity + named + log_dirs(node, directory) + COMMON + ZOOKEEPER


def listeners(node: int, names: list[str], recorded: list[str]) -> str:
    ports = {name: PORTS[node] + LISTENERS[name] for name in names}
    own = ",".join(f"{name}://127.0.0.1:{ports[name]}" for name in names)
    told = ",".join(f"{name}://127.0.0.1:{ports[name] + RECORDER_OFFSET * (name in recorded)}" for name in names)
    return f"listeners={own}\nadvertised.listeners={told}\n"


def log_dirs(node: int, directory: Path) -> str:
    return f"log.dirs={directory}/data-{node}-a,{directory}/data-{node}-b\n"


class Cluster:
    """The processes, by name. Everything is started and stopped here."""

    def __init__(self, jars: Path, directory: Path) -> None:
        self.jars = jars
        self.directory = directory
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def java(self, *arguments: str) -> list[str]:
        return ["java", "-Xmx384m", "-Xms128m", "-cp", f"{self.jars}/*:{self.directory}/classes", *arguments]

    def start(self, name: str, *arguments: str, port: int) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(self.java(*arguments), stdout=log, stderr=log)
        wait_until_listening(port, self.running[name])

    def start_broker(self, node: int) -> None:
        # Node 1 waits for no one, node 2 waits for node 1's controller.
        self.start(f"node-{node}", "kafka.Kafka", str(self.directory / f"node-{node}.properties"), port=PORTS[node] + 1)

    def stop(self, name: str) -> None:
        process = self.running.pop(name)
        process.terminate()
        process.wait()

    def format(self, config: Path) -> None:
        command = self.java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config))
        subprocess.run(command, check=True, capture_output=True)

    def compile_telemetry_sink(self) -> None:
        """A broker offers the telemetry APIs only if a plug-in wants the metrics; ours throws them away."""
        source = Path(__file__).with_name("TelemetrySink.java")
        subprocess.run(
            ["javac", "-cp", f"{self.jars}/*", "-d", str(self.directory / "classes"), str(source)], check=True
        )


def wait_until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.3)
    raise SystemExit(f"nobody listens on port {port}: see the logs beside the properties files")


def prepare_kraft(cluster: Cluster) -> None:
    cluster.compile_telemetry_sink()
    for node in PORTS:
        config = cluster.directory / f"node-{node}.properties"
        config.write_text(kraft_properties(node, cluster.directory))
        cluster.format(config)


def prepare_zookeeper(cluster: Cluster, protocol: str) -> None:
    config = cluster.directory / "zookeeper.properties"
    config.write_text(
        f"dataDir={cluster.directory}/zookeeper\nclientPort={ZOOKEEPER_PORT}\nclientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\n"
    )
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    cluster.start("zookeeper", main, str(config), port=ZOOKEEPER_PORT)
    for node in PORTS:
        text = zookeeper_properties(node, cluster.directory, protocol)
        (cluster.directory / f"node-{node}.properties").write_text(text)


def run(cluster: Cluster, stop: threading.Event) -> None:
    cluster.start_broker(1)
    cluster.start_broker(2)
    print("ready", flush=True)
    stop.wait()
    cluster.stop("node-2")
    cluster.start_broker(2)
    time.sleep(CATCH_UP_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--inter-broker-protocol")
    options = parser.parse_args()
    directory = options.directory.resolve()
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "classes").mkdir(parents=True)
    cluster = Cluster(options.jars, directory)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        if options.inter_broker_protocol:
            prepare_zookeeper(cluster, options.inter_broker_protocol)
        else:
            prepare_kraft(cluster)
        run(cluster, stop)
    finally:
        for name in sorted(cluster.running, key=["node-2", "node-1", "zookeeper"].index):
            cluster.stop(name)


if __name__ == "__main__":
    main()
