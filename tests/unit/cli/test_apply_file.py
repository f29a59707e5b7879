"""What files of `ottla apply` say, and what is wrong with them."""

import json

import pytest

from ottla.cli.apply.acting import portions, secrets_of
from ottla.cli.apply.desired import desired_of
from ottla.cli.apply.reading import read_file, read_text
from ottla.cli.apply.values import Desired, GrowTopic, SecretSource, SetConfig, SetPassword, WantedTopic, WantedUser
from ottla.cli.output import Failure
from ottla.client.admin.access import AclPermission
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.client.admin.credentials import ScramMechanism

YAML = """\
topics:
  clicks: {partitions: 6, replication: 3, settings: {retention.ms: 86400000, cleanup.policy: [compact, delete]}}
  "no":
settings:
  broker: {all: {log.cleaner.threads: 2}}
users:
  alice: {password: {env: ALICE}, mechanisms: [SCRAM-SHA-256, SCRAM-SHA-512], iterations: 8192}
rules:
  - {allow: alice, producer: true, topic: clicks}
  - {deny: [bob, carol], operation: read, topic: logs-, prefixed: true}
quotas:
  - {user: alice, client: loader, produce: 1MB}
  - {default: client, request-percentage: 50}
"""
TOML = """\
[topics.clicks]
partitions = 6
replication = 3
settings = {"retention.ms" = 86400000, "cleanup.policy" = ["compact", "delete"]}
[topics.no]
[settings.broker.all]
"log.cleaner.threads" = 2
[users.alice]
password = {env = "ALICE"}
mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
iterations = 8192
[[rules]]
allow = "alice"
producer = true
topic = "clicks"
[[rules]]
deny = ["bob", "carol"]
operation = "read"
topic = "logs-"
prefixed = true
[[quotas]]
user = "alice"
client = "loader"
produce = "1MB"
[[quotas]]
default = "client"
request-percentage = 50
"""


def desired(text, form=".yml"):
    return desired_of(read_text(text, form, f"cluster{form}"))


def faults(text, form=".yml"):
    with pytest.raises(Failure) as raised:
        desired(text, form)
    return str(raised.value)


def test_a_file_says_topics_settings_users_rules_and_quotas():
    found = desired(YAML)
    settings = {"retention.ms": "86400000", "cleanup.policy": "compact,delete"}
    assert found.topics == {"clicks": WantedTopic(6, 3, settings), "no": WantedTopic()}
    assert found.settings == {ConfigResource(ConfigResourceType.BROKER, ""): {"log.cleaner.threads": "2"}}
    both = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    assert found.users == {"alice": WantedUser(SecretSource("env", "ALICE"), both, 8192)}
    assert {each.principal for each in found.rules if each.permission is AclPermission.DENY} == {
        "User:bob",
        "User:carol",
    }
    assert len(found.rules) == 3 + 2
    assert found.quotas == {
        (("client-id", "loader"), ("user", "alice")): {"producer_byte_rate": 1_000_000.0},
        (("client-id", None),): {"request_percentage": 50.0},
    }


def test_yaml_toml_and_json_say_the_same():
    tree = read_text(TOML, ".toml", "cluster.toml").tree
    assert desired(TOML, ".toml") == desired(YAML) == desired(json.dumps(tree), ".json")


def test_anchors_and_merged_mappings_work():
    text = "topics:\n  a: &base {partitions: 3}\n  b:\n    <<: *base\n    replication: 2\n"
    assert desired(text).topics == {"a": WantedTopic(3), "b": WantedTopic(3, 2)}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("topic:\n  a:\n", "cluster.yml:1: topic: there is no such word; did you mean 'topics'?"),
        ("topics:\n  a:\n    partition: 3\n", "cluster.yml:3: topics.a.partition: there is no such word; did you mean"),
        ("topics:\n  a:\n    partitions: many\n", "cluster.yml:3: topics.a.partitions: a whole number above zero"),
        ("topics:\n  a:\n  a:\n", "cluster.yml:3: topics.a stands here twice"),
        (
            "topics:\n  __consumer_offsets:\n",
            "cluster.yml:2: topics.__consumer_offsets: this is a topic of the cluster",
        ),
        ("topics: [a, b]\n", "cluster.yml:1: topics: a mapping belongs here"),
        ("settings:\n  broker:\n    one: {a: 1}\n", "cluster.yml:3: settings.broker.one: a broker is named by its id"),
        ("rules:\n- {allow: alice, topic: a, operation: fly}\n", "cluster.yml:2: rules.0: there is no operation 'fly'"),
        ("rules:\n- {allow: alice, topic: a, producer: 1}\n", "rules.0.producer: true or false belongs here"),
        ("quotas:\n- {produce: 1MB}\n", "cluster.yml:2: quotas.0: a quota names whom"),
        ("quotas:\n- {user: a, produce: 1M}\n", "cluster.yml:2: quotas.0: --produce 1M: write bytes as"),
        ("users:\n  alice: {}\n", "cluster.yml:2: users.alice: a user has a password"),
        ("users:\n  a: {password: {env: A}, mechanisms: MD5}\n", "there is no 'MD5'; there is SCRAM-SHA-256"),
        ("topics: {a: [\n", "cluster.yml:2: this is no YAML"),
        ("", "a mapping with some of the words topics, settings, users, rules, quotas belongs here"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, sentence):
    assert sentence in faults(text)


def test_all_faults_are_reported_at_once():
    found = faults("topics:\n  a: {partitions: x}\n  b: {partitions: y}\nquotas: 3\n")
    assert found.count("\n") == 3


@pytest.mark.parametrize(
    "text",
    [
        "users:\n  alice: {password: hunter2}\n",
        "users:\n  alice: hunter2\n",
        "settings:\n  broker:\n    all: {ssl.keystore.password: hunter2}\n",
        "users:\n  alice: {password: {text: hunter2}}\n",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(text):
    assert "hunter2" not in faults(text)


@pytest.mark.parametrize(
    ("text", "form", "sentence"),
    [
        ('{"topics": {"a": {}, "a": {}}}', ".json", "'a' stands twice"),
        ('{"topics": {"a": null}}', ".json", "topics.a: None is no text"),
        ("{", ".json", "this is no JSON"),
        ("[topics", ".toml", "this is no TOML"),
        ("when = 2026-11-16\n", ".toml", "when: datetime.date"),
    ],
)
def test_the_other_forms_are_checked_too(text, form, sentence):
    with pytest.raises(Failure, match=sentence.replace("(", r"\(")):
        read_text(text, form, f"cluster{form}")


def test_aliases_of_aliases_do_not_fill_the_memory():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(Failure, match="more than 200,000 values"):
        read_text("\n".join(lines), ".yml", "cluster.yml")


def test_a_file_is_named_for_its_form_and_has_a_bound(tmp_path):
    with pytest.raises(Failure, match="says its form"):
        read_file(tmp_path / "cluster.conf")
    with pytest.raises(Failure, match="cannot read"):
        read_file(tmp_path / "missing.yml")
    (tmp_path / "bytes.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(Failure, match="not a text file"):
        read_file(tmp_path / "bytes.yml")


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_secrets_come_from_variables_and_files_beside_the_file(tmp_path):
    (tmp_path / "bob.secret").write_text("hunter3\nand a note\n")
    sources = SecretSource("env", "ALICE"), SecretSource("file", "bob.secret")
    changes = [SetPassword("u", ScramMechanism.SCRAM_SHA_512, None, each, True) for each in sources]
    assert secrets_of(changes, {"ALICE": "hunter2"}, tmp_path) == dict(
        zip(sources, ("hunter2", "hunter3"), strict=True)
    )
    broker = ConfigResource(ConfigResourceType.BROKER, "0")
    change = SetConfig(broker, "ssl.keystore.key", None, sources[1])
    assert secrets_of([change], {}, tmp_path) == {sources[1]: "hunter3\nand a note"}
    assert secrets_of([], {}, tmp_path) == {}


@pytest.mark.parametrize(
    "source", [SecretSource("env", "ALICE"), SecretSource("file", "gone"), SecretSource("env", "E")]
)
def test_a_secret_that_is_missing_or_empty_stops_before_the_first_change(source, tmp_path):
    change = SetPassword("u", ScramMechanism.SCRAM_SHA_512, None, source, True)
    with pytest.raises(Failure, match="nothing was changed"):
        secrets_of([change], {"E": ""}, tmp_path)


def test_changes_are_made_in_portions_and_passwords_one_by_one():
    grown = [GrowTopic(f"t{number}", 1, 2) for number in range(450)]
    password = SetPassword("u", ScramMechanism.SCRAM_SHA_512, None, SecretSource("env", "E"), True)
    assert [len(each) for each in portions([*grown, password, password])] == [200, 200, 50, 1, 1]


def test_nothing_is_wanted_of_sections_that_are_left_out():
    assert desired("topics:\n") == Desired(topics={})
