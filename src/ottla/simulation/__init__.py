"""The whole cluster in one process, from one seed: real brokers and clients, another world below them.

    python -m ottla.simulation --seed 7        # one schedule; prints what was found, and how to repeat it

1. Everything that brokers and clients know of the world comes in by doors: event loop and clock (loop.py, clock.py),
   network (network.py), disk (disk.py), threads (executor.py), chance. Here every door is in memory, and decided by the
   seed. Nothing else is different: no code of a broker or client asks whether it is simulated.
2. The same seed gives the same history, byte for byte, as often as it is run.
3. A process (process.py) is killed or paused between any two steps of its code, as kill -9 and SIGSTOP do it.
4. Workloads write down what they asked and what they heard (history.py); checker.py finds what must not be.

docs/reliability.md says what is simulated today and what is not; docs/decisions/0055 why it stands on the doors.
"""
