"""Topologies for tests, as members send them."""

from __future__ import annotations

from ottla.protocol.messages import streams_group_heartbeat as wire


def topic(name, partitions=0, factor=0, **configs):
    """An internal topic; `cleanup_policy` is the setting cleanup.policy."""
    return wire.TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=factor,
        topic_configs=[wire.KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def sub(name, sources=(), changelogs=(), sinks=(), repartitions=(), joined=()):
    """`joined` are copartition groups: (indexes of sources, indexes of repartition topics)."""
    return wire.Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        source_topic_regex=[],
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartitions),
        copartition_groups=[
            wire.CopartitionGroup(source_topics=list(a), source_topic_regex=[], repartition_source_topics=list(b))
            for a, b in joined
        ],
    )


def topology(*subtopologies, epoch=0):
    return wire.Topology(epoch=epoch, subtopologies=list(subtopologies))


def stateless():
    """Reads t, which has four partitions."""
    return topology(sub("0", ["t"]))


def counting():
    """Reads t by another key and counts: a repartition topic and a changelog."""
    return topology(sub("0", ["t"], sinks=["r"]), sub("1", repartitions=[topic("r")], changelogs=[topic("log")]))
