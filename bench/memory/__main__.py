"""Memory under an hour of mixed load: parts.py tells."""

from bench.memory.parts import main

main()
