"""Quotas as other people's programs see them: Kafka's own tool sets them, clients obey them, and the same program is
slowed down in the same manner by Apache Kafka.

`make test` has the tool and the arithmetic; half a minute at 1 MB/s with two clients on two brokers is `long`.
"""

from __future__ import annotations

import re
import subprocess
import time

import pytest
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.kafka_broker import KafkaBroker
from tests.conformance.our_broker import BrokerProcess
from tests.conformance.quota_program import (
    LARGE,
    LIMIT,
    SMALL,
    WINDOWS,
    Confluent,
    Ours,
    Timed,
    measure_consumer,
    measure_producer,
)
from tests.conformance.transaction_probes import Wire
from tests.patience import HANG_S

from ottla.broker.quotas.rate import SampledRate
from ottla.broker.quotas.token_bucket import TokenBucket
from ottla.client.admin.admin import Admin
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

CONFIG_COMMAND = "kafka.admin.ConfigCommand"
SECONDS = 30
CASES = [(measure, kind) for measure in (measure_producer, measure_consumer) for kind in (Ours, Confluent)]

JUDGE = """
import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/** Lines of (time, value): what Kafka's Rate and TokenBucket say after each. */
public class Judge {
    public static void main(String[] arguments) {
        int samples = Integer.parseInt(arguments[0]);
        long windowMs = Long.parseLong(arguments[1]);
        double bound = Double.parseDouble(arguments[2]);
        MetricConfig config = new MetricConfig().samples(samples).timeWindow(windowMs, TimeUnit.MILLISECONDS)
            .quota(Quota.upperBound(bound));
        Rate rate = new Rate();
        TokenBucket bucket = new TokenBucket();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLong()) {
            long now = lines.nextLong();
            double value = lines.nextLong();
            rate.record(config, value, now);
            bucket.record(config, value, now);
            System.out.println(rate.measure(config, now) + " " + rate.windowSize(config, now) + " "
                + bucket.measure(config, now));
        }
    }
}
"""


@pytest.mark.parametrize(("samples", "window_ms", "bound"), [(11, 1000, 50_000.0), (2, 1000, 7.5), (6, 5000, 1e6)])
def test_rates_and_buckets_are_those_of_kafkas_own_classes(tmp_path, samples, window_ms, bound):
    from random import Random

    jars = jars_or_skip("4.3")
    (tmp_path / "Judge.java").write_text(JUDGE)
    subprocess.run(["javac", "-d", tmp_path, "-cp", f"{jars}/*", tmp_path / "Judge.java"], check=True)
    random, now, steps = Random(samples), 1_700_000_000_000, []
    for _ in range(5_000):
        now += random.choice([0, 1, random.randint(0, 50), random.randint(0, 2_000), window_ms, window_ms * samples])
        steps.append((now, random.randint(-100, 200_000)))
    told = subprocess.run(
        ["java", "-cp", f"{tmp_path}:{jars}/*", "Judge", str(samples), str(window_ms), str(bound)],
        input="\n".join(f"{now} {value}" for now, value in steps),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    rate = SampledRate(samples=samples, window_ms=window_ms)
    bucket = TokenBucket(windows_s=samples * window_ms / 1000)
    assert len(told) == len(steps)
    for (now, value), line in zip(steps, told, strict=True):
        rate.record(value, now)
        bucket.spend(value, bound, now)
        ours = [rate.per_second(now), rate.elapsed_ms(now), bucket.tokens(bound, now)]
        assert ours == pytest.approx([float(each) for each in line.split()], rel=1e-9, abs=1e-3), now


def test_kafkas_tool_sets_describes_and_removes_quotas(tmp_path):
    jars = jars_or_skip("4.3")
    with BrokerProcess(tmp_path) as broker:
        java = JavaPrograms(jars, tmp_path, broker.bootstrap_servers)

        def configs(*arguments):
            return java.tool(CONFIG_COMMAND, *arguments)

        anna = ("--entity-type", "users", "--entity-name", "anna & co")
        shop = ("--entity-type", "clients", "--entity-name", "shop")
        rates = "producer_byte_rate=1024,request_percentage=12.5"
        configs("--alter", *anna, *shop, "--add-config", rates)
        configs("--alter", "--entity-type", "users", "--entity-default", "--add-config", "consumer_byte_rate=2048")
        configs("--alter", "--entity-type", "clients", "--entity-default", "--add-config", "controller_mutation_rate=5")
        configs(
            "--alter", "--entity-type", "ips", "--entity-name", "10.1.2.3", "--add-config", "connection_creation_rate=7"
        )
        told = configs("--describe", *anna, *shop)
        assert "producer_byte_rate=1024.0" in told
        assert "request_percentage=12.5" in told
        assert "connection_creation_rate=7.0" in configs(
            "--describe", "--entity-type", "ips", "--entity-name", "10.1.2.3"
        )
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            found = admin.describe_client_quotas()
        assert found == {
            (("client-id", "shop"), ("user", "anna & co")): {"producer_byte_rate": 1024, "request_percentage": 12.5},
            (("user", None),): {"consumer_byte_rate": 2048},
            (("client-id", None),): {"controller_mutation_rate": 5},
            (("ip", "10.1.2.3"),): {"connection_creation_rate": 7},
        }
        configs("--alter", *anna, *shop, "--delete-config", "producer_byte_rate,request_percentage")
        assert not re.search("byte_rate|percentage", configs("--describe", *anna, *shop))


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    settings = {"quota.window.num": str(WINDOWS), "ottla.durability": "replicated"}
    with BrokerProcess(tmp_path_factory.mktemp("ours"), settings) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def apache(tmp_path_factory):
    scratch = tmp_path_factory.mktemp("apache")
    broker = KafkaBroker(jars_or_skip("4.3"), scratch, scratch / "data", f"quota.window.num={WINDOWS}\n")
    broker.format()
    with broker:
        yield broker.bootstrap


@pytest.mark.long
@pytest.mark.parametrize(("measure", "kind"), CASES, ids=lambda each: each.__name__)
def test_a_client_under_one_megabyte_a_second_gets_it_and_others_are_not_slowed_down(ours, measure, kind, capsys):
    seen = measure(ours, kind(), f"rate-{measure.__name__}-{kind.__name__}", SECONDS, SMALL)
    with capsys.disabled():
        print(f"\n{measure.__name__} {kind.__name__} {seen}")
    assert seen.bytes_per_second == pytest.approx(LIMIT, rel=0.05)
    assert seen.throttle_avg_ms > 0
    assert seen.others_worst_ms < 1_000  # who waits for a quota waits longer, again and again


@pytest.mark.long
@pytest.mark.parametrize("measure", [measure_producer, measure_consumer], ids=lambda each: each.__name__)
def test_the_same_program_waits_as_long_as_at_apache_kafka(ours, apache, measure, capsys):
    topic = f"waits-{measure.__name__}"
    here, there = (measure(servers, Timed(), topic, SECONDS, LARGE[measure.__name__]) for servers in (ours, apache))
    with capsys.disabled():
        print(f"\n{topic}\n  ours   {here}\n  apache {there}")
    assert here.throttle_avg_ms == pytest.approx(there.throttle_avg_ms, rel=0.1)


@pytest.mark.long
def test_topics_made_on_demand_count_as_at_apache_kafka(tmp_path, capsys):
    """A client that has spent its quota for changes of topics has no more made by asking for them."""
    made = {"auto.create.topics.enable": "true", "num.partitions": "3"}
    text = "".join(f"{name}={value}\n" for name, value in made.items())
    kafka = KafkaBroker(jars_or_skip("4.3"), tmp_path, tmp_path / "data", text)
    kafka.format()
    with kafka:
        there = ask_for_topics(kafka.bootstrap)
    with BrokerProcess(tmp_path / "ours", made) as broker:
        here = ask_for_topics(broker.bootstrap_servers)
    with capsys.disabled():
        print(f"\nours {here}, apache {there}")
    assert here == there


def ask_for_topics(servers):
    """Which topics are there after one client asked for two and another for a third, and what the first is told when
    it creates one."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_client_quotas([({"client-id": "limited"}, {"controller_mutation_rate": 0.01})])
    time.sleep(2)  # a quota acts a moment later, and nothing at Kafka tells when
    with Wire(servers, client_id="limited") as limited, Wire(servers, client_id="free") as free:
        eventually(lambda: ask_for(limited, "first"))
        ask_for(limited, "second")
        topic = CreatableTopic(name="created", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        refused = limited.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)
        eventually(lambda: ask_for(free, "third"))
        there = [name for name in ("first", "second", "third") if ask_for(free, name, may_create=False)]
    return there, refused.topics[0].error_code, 200_000 < refused.throttle_time_ms <= 300_000


def ask_for(wire, name, *, may_create=True):
    """Whether it is there."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=may_create)
    return wire.ask(request, 9).topics[0].error_code == 0


def eventually(is_there):
    end = time.monotonic() + HANG_S
    while not is_there():
        assert time.monotonic() < end
        time.sleep(0.05)
