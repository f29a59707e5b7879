"""Planted bugs: faults that Kafka and others had, as small patches that the simulation must find.

    python -m tests.planted                    all of them; prints which seed found each, after how many schedules
    python -m tests.planted ack-before-isr     one of them
    python -m tests.planted --list

1. A bug is data (bugs_*.py): a file, a text in it, the text instead, what that breaks, what it resembles. The text
   stands once in today's source; a test says when it does not any more.
2. Each is applied alone, to a copy of src. Then seeds are run, in the order of their numbers, until one has an anomaly.
3. `needs` only skips seeds that cannot show the bug: without the workload, or with one broker. What the seeds that are
   left do is as random as ever; the same commands without the patch find nothing.
"""
