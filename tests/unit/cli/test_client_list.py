"""Clients and their numbers in the metrics of a broker."""

from __future__ import annotations

from ottla.cli.commands.client import KnownClient, Number, clients_of

TEXT = """\
# HELP ottla_client_info 1 for every client that pushes metrics.
# TYPE ottla_client_info gauge
ottla_client_info{client_instance_id="i-1",client_id="or\\"ders, \\\\n",software_name="librdkafka",\
software_version="2.16.0",host="10.0.0.1",principal="User:alice"} 1
ottla_client_metric{client_instance_id="i-1",client_id="or\\"ders, \\\\n",metric="org.x",attributes="node=1"} 2.5
ottla_client_metrics_left_out_total 0
process_open_fds 7
"""
NAME = 'or"ders, \\n'


def test_clients_and_numbers_are_found_with_their_strange_names() -> None:
    clients, numbers = clients_of(TEXT)
    assert clients == [KnownClient("i-1", NAME, "librdkafka 2.16.0", "10.0.0.1", "User:alice")]
    assert numbers == [Number("i-1", NAME, "org.x", "node=1", 2.5)]


def test_a_broker_without_clients_has_none() -> None:
    assert clients_of("process_open_fds 7\n") == ([], [])
