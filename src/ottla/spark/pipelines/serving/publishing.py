"""What a service tells everybody who may read the topic TOPIC: how its pipelines are; and what it hears there.

    key  clicks                   value  {"version": 1, "picture": ..., "status": ..., "trouble": null, "at_ms": ...}
    key  replay/clicks/<any>      value  {"rule": null, "step": null}         a request; answered under the same key:
                                         {"done": true, "message": "clicks: 12 dead letters are replayed"}

1. The topic is compacted, so the last word of every pipeline is there also when its service is gone, and on every
   broker of the cluster. The console's page of pipelines reads it with the rights of whoever looks at it; a broker
   knows nothing of Spark, and no service has to be reached from a browser.
2. Who may write into the topic may ask for a replay, and for nothing else. Requests are heard while the service runs;
   what a replay sends is exact whoever asks how often (replaying.py).
3. A cluster that does not answer is no reason to stop a pipeline: it is logged once, and tried again.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.records import ConsumerRecord
from ottla.client.producer.producer import Producer
from ottla.clock import Clock, SystemClock
from ottla.errors import OttlaError, TopicAlreadyExists
from ottla.spark.pipelines.drawing import Picture
from ottla.spark.pipelines.serving.children import Child
from ottla.values import TopicPartition

TOPIC: Final = "ottla-pipelines"
PLACE_PARTITION: Final = 0
VERSION: Final = 1
EVERY_S: Final = 2.0
AT_LEAST_EVERY_MS: Final = 30_000
REQUEST: Final = "replay/"
ANSWER_LIMIT: Final = 2_000

log = logging.getLogger(__name__)

Answer = Callable[[Mapping[str, Any]], str]
"""Does what a request asks for; returns a sentence about it."""


class Publisher:
    """Tells of one pipeline, in a thread of its own. `replay` does what requests ask for."""

    def __init__(
        self, child: Child, settings: Mapping[str, object], picture: Picture, replay: Answer, clock: Clock | None = None
    ) -> None:
        self._child = child
        self._settings = dict(settings)
        self._picture = picture.as_json()
        self._replay = replay
        self._clock = clock or SystemClock()
        self._over = threading.Event()
        self._is_silent = False
        self._last: tuple[str, int] = ("", 0)
        self._thread = threading.Thread(target=self._run, name=f"publish {child.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Tell the last state, and end."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with ExitStack() as stack:
                    self._work(stack)
            except (OttlaError, TimeoutError) as error:
                if not self._is_silent:
                    log.warning("%s is not published: %s", self._child.name, error)
                self._is_silent = True
                self._over.wait(EVERY_S)

    def _work(self, stack: ExitStack) -> None:
        """Until it is over, or the cluster fails."""
        _make_topic(self._settings)
        producer = stack.enter_context(Producer(self._settings))
        consumer = stack.enter_context(Consumer({**self._settings, "enable.auto.commit": "false"}))
        requests = _Requests(consumer, self._child.name)
        while True:
            is_last = self._over.is_set()
            self._publish(producer)
            self._is_silent = False
            if is_last:
                return
            for key, request in requests.heard(EVERY_S):
                answer = {"done": True, "message": self._replay(request)[:ANSWER_LIMIT]}
                producer.send(TOPIC, key=key, value=json.dumps(answer).encode(), partition=PLACE_PARTITION).get()

    def _publish(self, producer: Producer) -> None:
        """Send what is new; the same thing again now and then, to show that the service is there."""
        status = self._child.status()
        value: dict[str, Any] = {
            "version": VERSION,
            "pipeline": self._child.name,
            "phase": self._child.supervision.phase.value,
            "trouble": self._child.trouble(),
            "restarts": self._child.supervision.restarts,
            "picture": self._picture,
            "status": None if status is None else {**status.to_json(), "updated_ms": None},
        }
        text, now_ms = json.dumps(value), self._clock.now_ms()
        if text == self._last[0] and now_ms - self._last[1] < AT_LEAST_EVERY_MS:
            return
        content = json.dumps({**value, "at_ms": now_ms}).encode()
        producer.send(TOPIC, key=self._child.name.encode(), value=content, partition=PLACE_PARTITION).get()
        self._last = (text, now_ms)


def _make_topic(settings: Mapping[str, object]) -> None:
    with Admin(settings) as admin:
        if TOPIC not in admin.list_topics():
            try:
                admin.create_topics([NewTopic(TOPIC, 1, configs={"cleanup.policy": "compact"})])
            except TopicAlreadyExists:
                pass  # another service has just made it


class _Requests:
    """What is asked of one pipeline, from now on."""

    def __init__(self, consumer: Consumer, pipeline: str) -> None:
        self._consumer = consumer
        self._prefix = f"{REQUEST}{pipeline}/".encode()
        place = TopicPartition(TOPIC, PLACE_PARTITION)
        consumer.assign([place])
        consumer.seek(place, consumer.end_offsets([place])[place])

    def heard(self, limit_s: float) -> Sequence[tuple[bytes, Mapping[str, Any]]]:
        """Requests that came within this time."""
        requests = []
        for record in self._consumer.poll(limit_s):
            request = self._request_of(record)
            if request is not None and record.key is not None:
                requests.append((record.key, request))
        return requests

    def _request_of(self, record: ConsumerRecord) -> Mapping[str, Any] | None:
        """The request, if it is one: what others write there is passed over, and our own answers are."""
        if record.key is None or not record.key.startswith(self._prefix):
            return None
        try:
            found = json.loads(record.value or b"null")
        except ValueError:
            return None
        if not isinstance(found, dict) or "done" in found:
            return None
        are_texts = all(isinstance(found.get(name), str | None) for name in ("rule", "step"))
        return found if are_texts else None
