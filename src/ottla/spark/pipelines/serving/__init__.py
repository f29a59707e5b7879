"""A service that runs pipelines: each in a process of its own, watched, restarted, and shown to who asks.

    supervision.py   when a pipeline is started, stopped, started again: decided without processes and clocks
    children.py      the processes: `ottla pipeline run --continuous`, ended in order
    figures.py       what Prometheus reads
    publishing.py    what the console shows, through a topic, and the replays that it asks for

A process for each pipeline, because a Spark that dies (memory, a fault in Java) takes all that is in it along; and
because what a pipeline loads (its Python, its jars) is no business of the others (decision 0185). The command that
puts it together is `ottla pipeline serve`.
"""
