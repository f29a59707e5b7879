"""One target under atheris: `python -m tests.fuzz.coverage_guided "record stream" 100000 some-folder`.

The folder gets the seeds and keeps what atheris finds new, so that a second run goes on where the first ended.
"""

import hashlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ottla"]):
    from tests.fuzz.targets import Target, message_targets, other_targets


def find_target(name: str) -> Target:
    for target in (*other_targets(), *message_targets()):
        if target.name == name:
            return target
    raise SystemExit(f"no target is named {name!r}")


def main() -> None:
    name, runs, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    target = find_target(name)
    for seed in target.seeds():
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)

    def one_input(data: bytes) -> None:
        try:
            target.decode(data)
        except target.declared:
            pass

    atheris.Setup([sys.argv[0], f"-runs={runs}", "-seed=1", "-max_len=4096", str(folder)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
