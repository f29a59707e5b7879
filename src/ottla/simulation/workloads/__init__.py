"""Clients at work: real ones, on machines of their own, that write down what they ask and what they hear.

| name | file | what it does |
| --- | --- | --- |
| numbers | numbers.py | idempotent producers send unique numbers, several at a time |
| follow | reading.py | a consumer with assigned partitions reads along; a watcher asks where the partitions end |
| group-eager, group-cooperative, group-consumer | groups.py | members of a group come, commit and go |
| transfers | transactions.py | transactions over several partitions; some are aborted, some share a transactional.id |
| copy | copying.py | reads, processes and writes exactly once: offsets and records in one transaction |
| spark-sink | spark_sink.py | Spark's exactly-once sink: batches of tasks that are repeated until they are committed |
| share-group | share_groups.py | members of a share group acquire records, accept, release and reject them |
| churn | churn.py | a topic is made, written, grown, read, deleted, and made again |
| moves | moves.py | partitions move between brokers, preferred leaders are elected, settings change |
| cut | cleaning.py | DeleteRecords |
| compact, retention | cleaning.py | topics whose old records are compacted, or deleted by size |

1. drawn.py: a seed draws which of them run together.
2. An error that a client raises is written down as what it means: `info`, because with a lost answer nobody knows.
3. A workload's process can be killed and started again (`crash`), or paused: its client is a zombie then.
"""
