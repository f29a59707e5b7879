"""Ready-made jobs on Spark: what one does with topics most often, without writing a program.

    file                what it is for
    archive.py          topics to Parquet, partitioned by topic, partition and date; exactly once, resumable
    replay.py           such an archive back to topics, with timestamps, keys, headers, order and partitions
    mirror.py           topics of one cluster to another, with offsets mapped, so that groups can move
    profile.py          what is in a topic: counts, sizes, keys, headers, rates; drift.py: fields of JSON over time
    compact_report.py   what compaction would save

Each is a function of a session and a small frozen plan; `ottla job` (cli/commands/job.py) is the face of all of them.
Between them: following.py runs a stream to its end and reports its progress, tally.py adds up Spark's reports.
Nothing is imported here, so that one job does not load what only another needs.
"""
