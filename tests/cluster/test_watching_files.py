"""The dashboard and the alert rules: they can be read, and name nothing that a broker does not have."""

import subprocess

import pytest
import yaml
from tests.cluster.prometheus_server import PrometheusMissing, find_prometheus
from tests.cluster.watching_files import CONFIG, RULES, dashboard, expressions, names_in, panels, rules

from ottla.broker.observe.metric_table import SUMMARY, TABLE

SERVED = {
    "up",
    *(name for name, row in TABLE.items()),
    *(f"{name}{part}" for name, row in TABLE.items() if row.kind == SUMMARY for part in ("_sum", "_count")),
}


@pytest.mark.parametrize(("place", "expression"), list(expressions()))
def test_every_metric_of_an_expression_is_one_that_a_broker_has(place, expression):
    assert names_in(expression), "it asks for something"
    assert names_in(expression) <= SERVED


def test_panels_have_titles_places_and_ids_of_their_own():
    ids = [each["id"] for each in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)
    titles = [each["title"] for each in panels()]
    assert len(set(titles)) == len(titles)
    cells = [
        (x, y)
        for each in dashboard()["panels"]
        for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
        for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells), "no panel covers another"
    assert max(x for x, _ in cells) < 24


def test_variables_ask_for_labels_that_metrics_have():
    for variable in dashboard()["templating"]["list"][1:]:
        metric, label = variable["definition"].removeprefix("label_values(").rstrip(")").rsplit(", ", 1)
        row = TABLE[metric.partition("{")[0]]
        assert label in ("job", "instance", *row.tags)


def test_alerts_say_what_is_wrong_and_what_to_do():
    names = [each["alert"] for each in rules()]
    assert len(set(names)) == len(names)
    for each in rules():
        assert each["labels"]["severity"] in ("page", "ticket")
        assert each["annotations"]["summary"].endswith(".")
        assert each["annotations"]["description"].endswith(".")


def test_the_example_of_prometheus_reads_the_rules():
    config = yaml.safe_load(CONFIG.read_text())
    assert [CONFIG.parent / each for each in config["rule_files"]] == [RULES]
    assert config["scrape_configs"][0]["job_name"] == "ottla"


def test_prometheus_accepts_rules_and_configuration():
    try:
        promtool = find_prometheus("promtool")
    except PrometheusMissing as reason:
        pytest.skip(str(reason))
    done = subprocess.run([promtool, "check", "config", CONFIG], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
