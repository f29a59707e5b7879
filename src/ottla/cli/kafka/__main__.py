"""`python -m ottla.cli.kafka kafka-topics ...`: a command without an entry in the path."""

import sys

from ottla.cli.kafka.tools import TOOLS, main

if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("\n".join(f"{name:30} {text}" for name, (_, text) in TOOLS.items()))
        sys.exit(1)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
