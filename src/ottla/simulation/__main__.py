"""`python -m ottla.simulation` is `ottla simulate`: see command.py."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ottla.simulation.command import add_options


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.simulation")
    add_options(parser)
    options = parser.parse_args(arguments)
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
