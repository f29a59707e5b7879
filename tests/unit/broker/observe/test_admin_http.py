"""The admin listener: what it tells, what it refuses, what it outlives."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.patience import HANG_S

from ottla.broker.observe.admin_http import CONNECTIONS_LIMIT, HEAD_LIMIT_BYTES, AdminServer, Watch, answer
from ottla.metrics import CONTENT_TYPE

READY = Watch(lambda: "a_total 1\n", lambda: None)
RECOVERING = Watch(lambda: "", lambda: "recovering 3 of 7 logs")


def ask(path="/metrics", method="GET", host="localhost:9644", watch=READY, local_only=True, version="HTTP/1.1"):
    host_line = "" if host is None else f"Host: {host}\r\n"
    raw = answer(f"{method} {path} {version}\r\n{host_line}\r\n".encode(), watch, local_only=local_only)
    head, _, body = raw.decode().partition("\r\n\r\n")
    status = int(head.split(" ")[1])
    headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
    return status, headers, body


def test_metrics_are_given_in_prometheus_text():
    status, headers, body = ask("/metrics")
    assert (status, body) == (200, "a_total 1\n")
    assert headers["Content-Type"] == CONTENT_TYPE
    assert headers["Content-Length"] == str(len(body))
    assert headers["Connection"] == "close"


def test_health_says_live_and_ready_or_why_not():
    assert ask("/health/live")[::2] == (200, "live\n")
    assert ask("/health/ready")[::2] == (200, "ready\n")
    damaged = READY._replace(ready_but=lambda: ", but 1 partition has records that cannot be read")
    assert ask("/health/ready", watch=damaged)[::2] == (200, "ready, but 1 partition has records that cannot be read\n")
    assert ask("/health/ready", watch=RECOVERING)[::2] == (503, "not ready: recovering 3 of 7 logs\n")
    assert ask("/health/live", watch=RECOVERING)[0] == 200


def test_head_has_the_length_but_not_the_body():
    status, headers, body = ask("/metrics", method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, "10", "")


def test_a_query_is_passed_over_and_other_paths_are_not_there():
    assert ask("/metrics?x=1")[0] == 200
    status, _, body = ask("/secrets")
    assert (status, body) == (404, "there is /metrics, /health/live, /health/ready\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get"])
def test_nothing_can_be_changed(method):
    status, headers, _ = ask(method=method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9644", "[::1]:9644", "LOCALHOST:1"])
def test_a_loopback_name_is_answered(host):
    assert ask(host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9644", "localhost.evil.example", "", "10.0.0.1"])
def test_a_page_that_points_its_name_here_reads_nothing(host):
    assert ask(host=host)[0] == 403
    assert ask(host=host, local_only=False)[0] == 200


def test_a_request_without_host_is_for_old_clients_only():
    assert ask(host=None)[0] == 400
    assert ask(host=None, version="HTTP/1.0")[0] == 200


@given(st.binary(max_size=300))
def test_any_bytes_are_answered(head):
    assert answer(head, READY, local_only=True).startswith(b"HTTP/1.1 ")


# --- over a socket -------------------------------------------------------------------------------------------------


METRICS = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


def run(scenario, watch=READY, **options):
    async def main():
        server = AdminServer(watch, **options)
        host, port = await server.start("127.0.0.1", 0)
        try:
            await asyncio.wait_for(scenario(host, port, server), HANG_S)
        finally:
            await server.stop()
            await turns()

    asyncio.run(main())


async def turns():
    """Closing takes a few turns of the loop."""
    for _ in range(20):
        await asyncio.sleep(0)


async def exchange(host, port, *pieces):
    """What comes back until the server closes; nothing when it just hangs up."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await turns()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


def test_a_request_may_come_in_pieces_and_is_answered_once():
    async def scenario(host, port, server):
        pieces = (b"GET /health/live HT", b"TP/1.1\r\nHost: loc", b"alhost\r\n\r\n")
        assert (await exchange(host, port, *pieces)).endswith(b"\r\n\r\nlive\n")

    run(scenario)


def test_a_large_head_is_refused():
    async def scenario(host, port, server):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * (HEAD_LIMIT_BYTES * 2))
        assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
        writer.transport.abort()

    run(scenario)


def test_who_sends_half_a_request_is_put_out():
    async def scenario(host, port, server):
        assert await exchange(host, port, b"GET /metrics") == b""

    run(scenario, request_limit_s=0.01)


def test_who_hangs_up_early_harms_nobody():
    async def scenario(host, port, server):
        _, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /met")
        writer.close()
        assert b" 200 " in await exchange(host, port, METRICS)

    run(scenario)


def test_connections_are_limited_and_the_oldest_gives_way():
    async def scenario(host, port, server):
        idle = [await asyncio.open_connection(host, port) for _ in range(CONNECTIONS_LIMIT)]
        await turns()
        assert b" 200 " in await exchange(host, port, METRICS)
        assert await idle[0][0].read() == b""
        assert not idle[-1][0].at_eof()
        for _, writer in idle:
            writer.transport.abort()
        await turns()
        assert b" 200 " in await exchange(host, port, METRICS)

    run(scenario)


def test_what_is_told_is_looked_up_in_steps_before():
    seen = []

    def look():
        for step in range(3):
            seen.append(step)
            yield

    async def scenario(host, port, server):
        assert b" 200 " in await exchange(host, port, b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert seen == []
        assert (await exchange(host, port, METRICS)).endswith(b"[0, 1, 2]")

    run(scenario, watch=Watch(lambda: str(seen), lambda: None, look))


def test_a_fault_in_the_metrics_is_an_answer_and_a_log_line(caplog):
    async def scenario(host, port, server):
        received = await exchange(host, port, METRICS)
        assert received.startswith(b"HTTP/1.1 500 ")
        assert b"Zero" not in received

    run(scenario, watch=Watch(lambda: str(1 / 0), lambda: None))
    assert "could not answer" in caplog.text


def test_stop_ends_open_connections_and_frees_the_port():
    async def scenario(host, port, server):
        waiting = asyncio.ensure_future(exchange(host, port, b"GET"))
        await turns()
        await server.stop()
        assert await waiting == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, port)

    run(scenario)
