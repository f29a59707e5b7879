"""The simulated network: bytes in order, held back, broken at any byte, and a writer that is stopped."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from ottla.errors import NotConnected
from ottla.net.link import LinkSettings
from ottla.simulation.loop import SimulationLoop
from ottla.simulation.network import SimulatedNetwork, Weather

SERVER, CLIENT = "10.0.0.1", "10.0.1.1"


class Events:
    """Remembers what it hears."""

    def __init__(self, loop, echo=False):
        self.loop, self.echo = loop, echo
        self.link = None
        self.frames, self.writable, self.closes = [], [], []

    def opened(self, link):
        self.link = link

    def frame_received(self, frame):
        self.frames.append((self.loop.time(), bytes(frame)))
        if self.echo:
            self.link.write([framed(bytes(frame))])

    def writable_changed(self, writable):
        self.writable.append(writable)

    def closed(self, error):
        self.closes.append(error)


def framed(data):
    return len(data).to_bytes(4, "big") + data


class Lab:
    """A server and a client on two machines."""

    def __init__(self, seed=7, weather=None, echo=True, settings=None):
        self.loop = SimulationLoop(Random(seed))
        self.network = SimulatedNetwork(self.loop, Random(seed + 1), weather)
        self.server, self.client = self.loop.new_process("server"), self.loop.new_process("client")
        self.served, self.echo, self.settings = [], echo, settings or LinkSettings()
        self.loop.start(self.server, self._serve())

    async def _serve(self):
        def make_events():
            self.served.append(Events(self.loop, self.echo))
            return self.served[-1]

        await self.network.machine(SERVER).serve(SERVER, 9092, make_events, settings=self.settings)

    async def connect(self):
        await asyncio.sleep(0.01)
        events = Events(self.loop)
        await self.network.machine(CLIENT).connect(SERVER, 9092, events, settings=self.settings)
        return events

    def run(self, scenario):
        try:
            return self.loop.run(scenario(), limit_s=1_000, process=self.client)
        finally:
            self.loop.close()


def test_frames_arrive_whole_and_in_order_however_they_are_cut():
    lab = Lab(weather=Weather(piece_bytes=3))
    sent = [b"frame %d" % number * (number + 1) for number in range(30)]

    async def scenario():
        events = await lab.connect()
        for data in sent:
            events.link.write([framed(data)])
        await asyncio.sleep(5)
        assert [data for _, data in events.frames] == sent

    lab.run(scenario)


def test_delay_and_bandwidth_take_their_time():
    lab = Lab(weather=Weather(delay_s=(0.5, 0.5), bytes_per_s=1_000))

    async def scenario():
        events = await lab.connect()
        began = lab.loop.time()
        events.link.write([framed(bytes(996))])
        await asyncio.sleep(10)
        assert events.frames[0][0] - began == pytest.approx(3.0, abs=0.01)

    lab.run(scenario)


def test_a_partition_of_one_direction_holds_back_and_heals():
    lab = Lab()

    async def scenario():
        events = await lab.connect()
        lab.network.partition([SERVER], [CLIENT])
        events.link.write([framed(b"question")])
        await asyncio.sleep(5)
        assert [data for _, data in lab.served[0].frames] == [b"question"]
        assert events.frames == []
        lab.network.heal()
        await asyncio.sleep(1)
        assert [data for _, data in events.frames] == [b"question"]

    lab.run(scenario)


def test_connecting_through_a_partition_waits_and_to_nobody_is_refused():
    lab = Lab()

    async def scenario():
        with pytest.raises(NotConnected):
            await lab.network.machine(CLIENT).connect(SERVER, 1, Events(lab.loop))
        lab.network.partition([SERVER], [CLIENT])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await lab.connect()
        waiting = asyncio.ensure_future(lab.connect())
        await asyncio.sleep(1)
        lab.network.heal()
        assert (await waiting).link is not None

    lab.run(scenario)


def lengths_after_reset(seed):
    lab = Lab(seed, weather=Weather(delay_s=(0.01, 0.02)), echo=False)

    async def scenario():
        events = await lab.connect()
        await asyncio.sleep(0.1)
        for _ in range(5):
            events.link.write([framed(bytes(10))])
        lab.network.reset(events.link)
        await asyncio.sleep(1)
        assert len(events.closes) == len(lab.served[0].closes) == 1
        return len(lab.served[0].frames)

    return lab.run(scenario)


def test_a_reset_cuts_at_any_byte_and_both_ends_learn_of_it():
    assert len({lengths_after_reset(seed) for seed in range(40)}) > 3


def test_a_half_open_end_learns_when_it_writes():
    lab = Lab()

    async def scenario():
        events = await lab.connect()
        await asyncio.sleep(0.1)
        lab.network.reset(lab.served[0].link, half_open=True)
        await asyncio.sleep(60)
        assert events.closes == []
        events.link.write([framed(b"anybody there?")])
        await asyncio.sleep(1)
        assert len(events.closes) == 1

    lab.run(scenario)


def test_who_does_not_read_stops_the_writer():
    settings = LinkSettings(write_pause_bytes=10_000)
    lab = Lab(echo=False, settings=settings)

    async def scenario():
        events = await lab.connect()
        await asyncio.sleep(0.1)
        lab.served[0].link.pause_reading()
        for _ in range(20):
            events.link.write([framed(bytes(1_000))])
        await asyncio.sleep(60)
        assert events.writable == [False]
        lab.served[0].link.resume_reading()
        await asyncio.sleep(1)
        assert events.writable == [False, True]
        assert len(lab.served[0].frames) == 20

    lab.run(scenario)


def test_the_kernel_of_a_killed_process_tells_the_others_and_a_dead_machine_does_not():
    for tells in (True, False):
        lab = Lab()

        async def scenario(lab=lab, tells=tells):
            events = await lab.connect()
            await asyncio.sleep(0.1)
            lab.server.kill()
            (lab.network.end_process if tells else lab.network.power_off)(SERVER)
            await asyncio.sleep(60)
            assert len(events.closes) == tells
            if not tells:
                events.link.write([framed(b"hello")])
                await asyncio.sleep(60)
                lab.network.power_on(SERVER)
                await asyncio.sleep(1)
                assert len(events.closes) == 1

        lab.run(scenario)


def test_a_paused_process_reads_when_it_goes_on():
    lab = Lab()

    async def scenario():
        events = await lab.connect()
        lab.server.pause()
        events.link.write([framed(b"question")])
        await asyncio.sleep(10)
        assert events.frames == []
        lab.loop.resume(lab.server)
        await asyncio.sleep(1)
        assert [data for _, data in events.frames] == [b"question"]

    lab.run(scenario)
