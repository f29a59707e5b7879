"""What a call of a member means to the truth, and what it is answered: no sockets, no clock.

`answer` gives the frames to send back, in order. A call that is not one, or whose arguments do not fit, is answered
with an error and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ottla.cluster.json_values import MalformedValue, from_json, to_json
from ottla.cluster.model import Broker
from ottla.cluster.store.events import Controller
from ottla.cluster.store.interface import ControllerMoved
from ottla.cluster.store.served.kept import KeptTruth
from ottla.cluster.store.served.wire import read_changes, write_error, write_image, write_notice
from ottla.cluster.store.shared import is_for_the_controller
from ottla.cluster.store.truth import Seat
from ottla.errors import OttlaError

log = logging.getLogger(__name__)

Arguments: TypeAlias = Mapping[str, Any]
Call: TypeAlias = Callable[[KeptTruth, Seat, Arguments], Any]


def answer(truth: KeptTruth, seat: Seat, request: Arguments) -> list[dict[str, Any]]:
    """The frames that follow a call."""
    number, name = request.get("id"), request.get("call")
    try:
        call = _CALLS.get(name) if isinstance(name, str) else None
        if call is None:
            raise MalformedValue(f"there is no call {name!r}")
        answered = [{"id": number, "value": call(truth, seat, request)}]
    except OttlaError as error:
        return [{"id": number, "error": write_error(error)}]
    except Exception as error:
        log.exception("the call %s failed", name)
        return [{"id": number, "error": write_error(error)}]
    if name == "take_over":
        answered += [write_notice(each) for each in truth.requests()]
    return answered


def _int(arguments: Arguments, name: str) -> int:
    found: int = from_json(int, arguments.get(name))
    return found


def _elected(arguments: Arguments) -> Controller:
    found: Controller = from_json(Controller, arguments.get("elected"))
    return found


def _hello(truth: KeptTruth, seat: Seat, arguments: Arguments) -> Any:
    claims = from_json(tuple[tuple[int, int], ...], arguments.get("registrations"))
    has_all = truth.claim(dict(claims), seat)
    controller = truth.controller()
    return {
        "has_all": has_all,
        "image": write_image(truth.known_to_all()),
        "controller": None if controller is None else list(controller),
        "session_timeout_ms": truth.session_timeout_ms,
    }


def _commit(truth: KeptTruth, seat: Seat, arguments: Arguments) -> None:
    changes = read_changes(arguments.get("changes"))
    elected = None if arguments.get("elected") is None else _elected(arguments)
    if elected is None and any(map(is_for_the_controller, changes)):
        raise ControllerMoved("only the controller changes brokers, topics and partitions")
    truth.commit(changes, elected, seat)


def _register(truth: KeptTruth, seat: Seat, arguments: Arguments) -> Any:
    broker: Broker = from_json(Broker, arguments.get("broker"))
    return to_json(truth.register(broker, seat))


def _topic_settings(truth: KeptTruth, seat: Seat, arguments: Arguments) -> Any:
    names = from_json(tuple[str, ...], arguments.get("names"))
    return {name: dict(found) for name, found in truth.topic_settings(names).items()}


_CALLS: Final[Mapping[str, Call]] = {
    "hello": _hello,
    "ping": lambda truth, seat, arguments: None,
    "commit": _commit,
    "take_over": lambda truth, seat, arguments: write_image(truth.take_over(_elected(arguments), seat)),
    "register": _register,
    "unregister": lambda truth, seat, arguments: truth.unregister(_int(arguments, "broker_id"), seat),
    "stand": lambda truth, seat, arguments: list(truth.stand(_int(arguments, "broker_id"), seat)),
    "resign": lambda truth, seat, arguments: truth.resign(_elected(arguments), seat),
    "controller": lambda truth, seat, arguments: truth.controller(),
    "holder_of": lambda truth, seat, arguments: truth.holder_of(_int(arguments, "broker_id"), seat),
    "registered_brokers": lambda truth, seat, arguments: [to_json(each) for each in truth.registered_brokers()],
    "topic_names": lambda truth, seat, arguments: sorted(truth.topic_names()),
    "topic_settings": _topic_settings,
    "next_broker_number": lambda truth, seat, arguments: truth.next_broker_number(),
    "announce_failed_directory": lambda truth, seat, arguments: truth.announce_failed_directory(
        _int(arguments, "broker_id")
    ),
    "leave": lambda truth, seat, arguments: truth.end_session(seat),
}
