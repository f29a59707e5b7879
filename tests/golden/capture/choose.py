"""Picks the frames worth keeping from raw recordings: python choose.py RAW_FILE ... --frames DIR

1. Only APIs and versions of our table.
2. Per client, API, version and kind the first frame heard and the longest one. Produce and Fetch carry record batches,
   so they are counted per client id too: the drivers name the client id after the codec.
3. A request with bytes after its end says how many in `left_over`, and does not compete with proper ones. Apache Kafka
   ignores such bytes, so there are clients that send them.
4. One file per client, sorted, so that a new capture can be compared with the old one.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from ottla.protocol import codec
from ottla.protocol.api import APIS
from ottla.protocol.header import RequestHeader, request_header_version

PRODUCE, FETCH = 0, 1


def slot(frame: dict[str, Any]) -> tuple[Any, ...]:
    """What competes for the same two places."""
    same = (frame["key"], frame["version"], frame["kind"] == "response", frame["left_over"])
    return (*same, frame["client_id"] or "") if frame["key"] in (PRODUCE, FETCH) else same


def left_over(frame: dict[str, Any]) -> int:
    if frame["kind"] == "response":
        return 0
    content, key, version = bytes.fromhex(frame["hex"]), frame["key"], frame["version"]
    _, position = codec.decode_prefix(RequestHeader, request_header_version(key, version), content)
    _, end = codec.decode_prefix(APIS[key].request, version, content, position)
    return len(content) - end


def choose(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    slots = defaultdict(list)
    for frame in frames:
        api = APIS.get(frame["key"])
        if api is not None and frame["version"] in api.versions:
            frame["left_over"] = left_over(frame)
            slots[slot(frame)].append(frame)
    chosen = []
    for _, heard in sorted(slots.items()):
        longest = max(heard, key=lambda frame: len(frame["hex"]))
        chosen += [heard[0]] if longest is heard[0] else [heard[0], longest]
    return chosen


def line(frame: dict[str, Any]) -> str:
    about = {
        "client": frame["client"],
        "api": APIS[frame["key"]].name,
        "key": frame["key"],
        "version": frame["version"],
    }
    odd = {"left_over": frame["left_over"]} if frame["left_over"] else {}
    return json.dumps({**about, "kind": frame["kind"], **odd, "hex": frame["hex"]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", nargs="+", type=Path)
    parser.add_argument("--frames", type=Path, required=True)
    options = parser.parse_args()
    clients = defaultdict(list)
    for path in options.raw:
        for text in path.read_text().splitlines():
            frame = json.loads(text)
            clients[frame["client"]].append(frame)
    options.frames.mkdir(exist_ok=True)
    for client, frames in clients.items():
        chosen = choose(frames)
        target = options.frames / f"{client.replace(' ', '-')}.jsonl"
        target.write_text("".join(line(frame) + "\n" for frame in chosen))
        print(f"{target.name}: {len(chosen)} of {len(frames)} frames, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
