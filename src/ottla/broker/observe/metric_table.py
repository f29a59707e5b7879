"""Every metric of a broker in one table: name, kind, labels, meaning, and the release it came with.

    counter(registry, "kafka_server_replicamanager_isrshrinks_total").of().value += 1

1. A metric that is not in this table cannot be made: names, labels and meanings come from here, docs/metrics.md is
   written from here (metric_page.py), and a test asks a broker for every row.
2. Names that begin with kafka_ are those that the JMX exporter gives Apache Kafka's by its standard rules, with their
   labels; where two sets of rules in use differ, both are here. kminion_ are the names of KMinion, process_ those that
   every exporter has. What nobody else has begins with ottla_.
3. A summary has quantiles of the recent past and `_count` and `_sum` of its whole life; Kafka's have no sum.
4. A label in brackets is missing in one more series, which is the sum over all of its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.metrics import Counter, Family, Gauge, Registry

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
SUMMARY: Final = "summary"
FIRST: Final = "0.1.0"
LOOP: Final = "0"  # the number of Kafka's network processor: there is one loop


class Metric(NamedTuple):
    """One row."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str
    since: str = FIRST

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(label.strip("[]") for label in self.labels)


# A title; below it kind, beginning of the names (- is none) and labels; below that the names and what they mean.
_TEXT: Final = """
Requests
  counter kafka_network_requestmetrics_ request version
    requests_total: Requests answered.
  counter kafka_network_requestmetrics_ request error
    errors_total: Answers by error, NONE among them; an answer about many partitions counts once for each that
      failed.
  summary kafka_network_requestmetrics_ request
    totaltimems: From the moment a request is begun until its answer is ready.
    requestqueuetimems: How long a request waits until the loop begins it: how late the loop is, looked at four
      times a second while somebody reads metrics, and the same for all requests.
    localtimems: Until a request is answered or waits for the first time.
    remotetimems: How long it waits for followers, for records, or for other brokers.
    responsequeuetimems: How long its answer, being ready, waits for the answers before it.
    responsesendtimems: How long its answer takes into the socket.
    throttletimems: How long its client has to wait, because of a quota.
  gauge kafka_network_requestchannel_
    requestqueuesize: Requests that were read and are not begun, because their connection is held back.
  gauge kafka_network_requestchannel_ processor
    responsequeuesize: Connections with answers that the socket has not taken yet.
The loop
  gauge -
    kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent: Share of the last while in which the
      loop's thread used no processor, from 0 to 1. One loop reads, handles and answers, so this and the next are
      one number.
    kafka_network_socketserver_networkprocessoravgidlepercent: The same.
    kafka_network_socketserver_networkprocessoravgidle_percent: The same, by newer rules.
    kafka_server_group_coordinator_metrics_thread_idle_ratio_avg: The same: the loop is the coordinator's
      thread, too.
    ottla_loop_lag_seconds: How late the loop was when it was looked at last.
  gauge ottla_loop_ [cause]
    longest_stall_seconds: The longest time since the start in which one step held the loop and everybody waited, by
      what did it: an API, a job, background work; without a cause the longest of all. Steps below 50 ms are left out.
  counter ottla_loop_ [cause]
    stalls_total: Steps that held the loop for 200 ms or longer, by what did it; each cause is a WARNING in the log.
  gauge kafka_network_processor_ networkProcessor
    idlepercent: The same.
  counter kafka_server_kafkarequesthandlerpool_
    requesthandleravgidlepercent_count: Nanoseconds in which the loop's thread used no processor.
    requesthandleravgidlepercent_total: The same, as other reporters name it.
Topics
  counter kafka_server_brokertopicmetrics_ [topic]
    messagesin_total: Records appended by producers.
    bytesin_total: Bytes of record batches appended by producers.
    bytesout_total: Bytes of record batches sent to consumers.
    bytesrejected_total: Bytes of record batches that were refused for their size.
    totalproducerequests_total: Times a topic was produced to.
    totalfetchrequests_total: Times a topic was fetched from.
    failedproducerequests_total: Times producing to a topic failed.
    failedfetchrequests_total: Times fetching from a topic failed.
  counter kafka_server_brokertopicmetrics_
    replicationbytesin_total: Bytes of record batches fetched from leaders.
    replicationbytesout_total: Bytes of record batches sent to followers.
Replicas
  gauge kafka_server_replicamanager_
    partitioncount: Partitions that this broker has a replica of.
    leadercount: Partitions that this broker leads.
    underreplicatedpartitions: Partitions led here with replicas that are not in sync.
    underminisrpartitioncount: Partitions led here with fewer in sync than min.insync.replicas.
    atminisrpartitioncount: Partitions led here with exactly min.insync.replicas in sync.
    offlinereplicacount: Replicas of this broker whose disk failed.
    reassigningpartitions: Partitions led here that are moving to other brokers.
    produceridcount: Producer ids whose last batches are remembered.
  counter kafka_server_replicamanager_
    isrshrinks_total: Times a set of in-sync replicas became smaller.
    isrexpands_total: Times a set of in-sync replicas became larger.
    failedisrupdates_total: Times the controller did not agree with a new set of in-sync replicas.
  gauge kafka_cluster_partition_ topic partition
    replicascount: Replicas of a partition led here; 0 for others.
    insyncreplicascount: Those of them that are in sync.
    underreplicated: 1 when some are not.
    underminisr: 1 when fewer than min.insync.replicas are.
    atminisr: 1 when exactly so many are.
    laststableoffsetlag: Records between the last stable offset and the high watermark.
  gauge kafka_server_replicaalterlogdirsmanager_ clientId
    maxlag: Offsets that the copy which is furthest behind lacks, of replicas on their way to another directory.
    failedpartitionscount: Replicas that were to move and could not yet.
  gauge kafka_server_replicafetchermanager_ clientId
    maxlag: Records that this broker is behind, in the partition where it is furthest behind its leader.
    failedpartitionscount: Partitions that are not followed any more, because something broke.
  gauge kafka_server_fetcherlagmetrics_ clientId topic partition
    consumerlag: Records that this broker is behind the leader of a partition.
Waiting
  gauge kafka_server_delayedoperationpurgatory_ delayedOperation
    purgatorysize: Partitions that waiting requests watch (Produce, Fetch).
    numdelayedoperations: Requests that wait (Produce, Fetch).
  gauge kafka_server_fetchsessioncache_
    numincrementalfetchsessions: Fetch sessions that are remembered.
    numincrementalfetchpartitionscached: Partitions that they remember.
  counter kafka_server_fetchsessioncache_
    incrementalfetchsessionevictions_total: Fetch sessions that were forgotten to make room.
  gauge kafka_server_sharesessioncache_
    sharesessionscount: Share sessions: members of share groups that fetch from this broker.
    sharepartitionscount: Partitions that they fetch.
  counter kafka_server_sharegroupmetrics_ ackType
    recordacknowledgements_total: Records of share groups by what their members said of them.
  gauge ottla_share_
    partitions: Partitions that are shared here, each as often as groups share it.
    in_flight_records: Records of theirs that were delivered, or may be again, and are not done.
  counter ottla_share_
    ended_locks_total: Times that locks of a shared partition ended because nobody acknowledged in time.
Connections
  gauge kafka_server_socket_server_metrics_ listener networkProcessor
    connection_count: Open connections.
    expired_connections_killed_count: Connections closed because their login had expired.
  counter kafka_server_socket_server_metrics_ listener networkProcessor
    connection_creation_total: Connections that were opened.
    connection_close_total: Connections that were closed.
    successful_authentication_total: Logins and handshakes that succeeded; of listeners that want them.
    failed_authentication_total: Logins and handshakes that failed.
    successful_reauthentication_total: Repeated logins that succeeded.
    failed_reauthentication_total: Repeated logins that failed.
    expired_connections_killed_total: Connections closed because their login had expired.
  gauge kafka_server_socket_server_metrics_ clientSoftwareName clientSoftwareVersion listener networkProcessor
    connections_software: Open connections by the client library at their other end; the 100 most frequent.
  gauge kafka_server_socket_server_metrics_ ip
    connection_accept_rate: Connections a second from an address with a quota.
  gauge kafka_server_socket_server_metrics_ listener
    connection_accept_throttle_time: Milliseconds that connections had to wait.
    ip_connection_accept_throttle_time: Milliseconds until connections of addresses above their quota were
      closed.
  gauge kafka_network_socketserver_
    memorypoolused: Bytes of requests that were read and are not answered.
    memorypoolavailable: Bytes left of queued.max.request.bytes; 2^63 - 1 without that limit.
    expiredconnectionskilledcount: Connections closed because their login had expired, on all listeners.
Quotas
  gauge kafka_server_ user client-id
    produce_byte_rate: Bytes a second that a client with a quota sends.
    produce_throttle_time: Milliseconds that it had to wait, on average in the last 30 to 60 seconds; NaN when
      it had not.
    fetch_byte_rate: Bytes a second that it gets.
    fetch_throttle_time: Milliseconds that it had to wait.
    request_request_time: Percent of the loop's time that it takes.
    request_throttle_time: Milliseconds that it had to wait.
    controllermutation_mutation_rate: Partitions that it makes and deletes a second.
    controllermutation_tokens: Partitions that it may make or delete now.
    controllermutation_throttle_time: Milliseconds that it had to wait.
  gauge kafka_server_quota_ resource user clientId
    byte_rate: The same as above under the names of the older rules: resource is Produce or Fetch.
    throttle_time: Produce, Fetch, Request or ControllerMutation.
    request_time: Request.
    mutation_rate: ControllerMutation.
    tokens: ControllerMutation.
Logs
  gauge kafka_log_log_ topic partition
    size: Bytes of a partition's log.
    logendoffset: The offset that its next record gets.
    logstartoffset: The offset of its first record.
    numlogsegments: Its segments.
  summary kafka_log_logflushstats_
    logflushrateandtimems: Syncs of logs to the disk; several logs that are synced together take one time.
  gauge kafka_log_logmanager_
    offlinelogdirectorycount: Log directories that failed.
  gauge kafka_log_logmanager_ logDirectory
    logdirectoryoffline: 1 for a log directory that failed.
  gauge kafka_log_logcleaner_
    cleaner_recopy_percent: Bytes that the last compaction of a log kept, in percent of those it read.
    max_clean_time_secs: Seconds that it took.
  gauge kafka_log_logcleanermanager_
    max_dirty_percent: Of the log that needs compaction most, the part that is not compacted, in percent.
    time_since_last_run_ms: Milliseconds since logs were last looked through for compaction.
  gauge kafka_log_logcleanermanager_ logDirectory
    uncleanable_partitions_count: Logs that are not compacted any more, because they are damaged.
    uncleanable_bytes: Their bytes.
  gauge ottla_log_
    damaged_partitions: Partitions with bytes on this broker's disks that cannot be read, as far as is known.
  counter ottla_log_
    verified_bytes_total: Bytes of logs that were read to check their CRCs.
    verification_passes_total: Passes over all records of a log directory that came to their end.
    repaired_segments_total: Damaged segments that were repaired from another replica.
Controller
  gauge kafka_controller_kafkacontroller_
    activecontrollercount: 1 on the broker that is the controller. All others below are 0 elsewhere.
    activebrokercount: Brokers that may lead partitions.
    controlledshutdownbrokercount: Brokers that are about to stop.
    fencedbrokercount: Brokers that are registered and may not.
    globaltopiccount: Topics.
    globalpartitioncount: Partitions.
    offlinepartitionscount: Partitions that nobody leads.
    preferredreplicaimbalancecount: Partitions that their first replica does not lead.
  counter kafka_controller_controllerstats_
    uncleanleaderelections_total: Leaders elected that were not in sync.
  summary kafka_controller_controllerstats_
    leaderelectionrateandtimems: Changes of leaders, from the decision until the change is kept.
  gauge kafka_controller_controllereventmanager_
    eventqueuesize: Events that wait for the controller.
  summary kafka_controller_controllereventmanager_
    eventqueueprocessingtimems: How long the controller takes for an event.
Metadata log
  gauge kafka_server_raft_metrics_
    current_leader: Node that leads the metadata log; -1 while none is known.
    current_epoch: The epoch that it leads in.
    current_vote: Node that this one voted for in that epoch; -1 for none, as of brokers without a vote.
    high_watermark: Offset up to which the log is committed.
    log_end_offset: Offset that its next record gets on this node.
    log_end_epoch: Epoch of its last record there.
    number_of_voters: Voters of the quorum, as far as the log tells them.
  gauge kafka_server_broker_metadata_metrics_
    last_applied_record_offset: Offset of the last record that this node has applied.
    last_applied_record_timestamp: When that was written, in milliseconds since 1970.
    last_applied_record_lag_ms: How long ago that was, in milliseconds; it grows while nothing changes.
  gauge kafka_server_metadataloader_
    currentcontrollerid: Node that is controller, as this one knows.
    currentmetadataversion: Level of metadata.version.
  gauge kafka_server_metadataloader_ featureName
    finalizedlevel: Level of a feature that is finalized.
  gauge kafka_server_snapshotemitter_
    latestsnapshotgeneratedbytes: Size of the newest snapshot of the metadata; 0 when there is none.
    latestsnapshotgeneratedagems: How old it is, in milliseconds.
Groups
  gauge kafka_coordinator_group_groupmetadatamanager_
    numgroups: Groups that this broker coordinates.
    numoffsets: Offsets that they have committed.
    numgroupsempty: Groups of the classic protocol that are Empty.
    numgroupspreparingrebalance: ... PreparingRebalance.
    numgroupscompletingrebalance: ... CompletingRebalance.
    numgroupsstable: ... Stable.
    numgroupsdead: ... Dead.
  gauge kafka_server_group_coordinator_metrics_ protocol
    group_count: Groups by protocol.
  gauge kafka_server_group_coordinator_metrics_ state
    consumer_group_count: Groups of the consumer protocol by state.
    share_group_count: Share groups by state.
    streams_group_count: Groups of Kafka Streams members by state.
    num_partitions: Partitions of __consumer_offsets led here: loading or active.
  gauge kafka_server_group_coordinator_metrics_
    partition_load_time_avg: Milliseconds to load one of them, on average since the start.
    partition_load_time_max: The longest since the start.
    offset_commit_count: Offsets committed since the start.
    offset_expiration_count: Offsets that expired or were deleted since the start.
  gauge kafka_server_share_coordinator_metrics_ state
    num_partitions: Partitions of __share_group_state led here: loading or active.
  gauge kafka_server_share_coordinator_metrics_
    partition_load_time_avg: Milliseconds to load one of them, on average since the start.
    partition_load_time_max: The longest since the start.
  counter kafka_server_share_coordinator_metrics_
    write_total: Records written to __share_group_state since the start.
  gauge kafka_server_transaction_coordinator_metrics_
    partition_load_time_avg: Milliseconds to load a partition of __transaction_state, on average.
    partition_load_time_max: The longest since the start.
  gauge ottla_transactions_ state
    count: Transactional ids by the state of their transaction.
Lag
  gauge kminion_kafka_consumer_group_ group_id topic_name partition_id
    topic_partition_lag: Records between what a group has committed and the high watermark.
  gauge kminion_kafka_consumer_group_ group_id topic_name
    topic_lag: The same for all partitions of a topic.
    topic_offset_sum: The sum of the offsets that a group has committed in a topic.
  gauge kminion_kafka_consumer_group_ group_id
    members: Members of a group.
  gauge kminion_kafka_consumer_group_ coordinator_id group_id protocol protocol_type state
    info: 1 while the group is Stable, else 0.
  gauge kminion_kafka_topic_partition_ topic_name partition_id
    high_water_mark: The high watermark of a partition led here.
    low_water_mark: The start of its log.
  gauge kminion_kafka_topic_ topic_name
    high_water_mark_sum: High watermarks of the topic's partitions led here, together.
    low_water_mark_sum: Starts of their logs, together.
    log_dir_size_total_bytes: Bytes of the topic's replicas on this broker.
  gauge kminion_kafka_topic_ topic_name partition_count replication_factor cleanup_policy
    info: 1 for every topic, on the controller.
  gauge kminion_kafka_ broker_id address port rack_id
    broker_log_dir_size_total_bytes: Bytes of all logs of this broker.
  gauge kminion_kafka_ broker_id address port rack_id is_controller
    broker_info: 1 for every broker, on the controller.
  gauge kminion_kafka_ cluster_id cluster_version broker_count controller_id
    cluster_info: 1, on the controller.
Clients
  gauge kafka_server_client_metrics_
    instance_count: Clients that ask for what they should push, and have not ended.
    unknown_subscription_request_count: Pushes for a subscription that was changed meanwhile; the client asks again.
  gauge kafka_server_client_metrics_ client_instance_id
    throttle_count: Times a client came before its interval was over; of the 1,000 clients heard last, as the next two.
    plugin_export_count: Pushes of a client that were taken in.
    plugin_error_count: Pushes of a client that could not be read.
  gauge ottla_client_ client_instance_id client_id software_name software_version host principal
    info: 1 for every client that pushes metrics.
  gauge ottla_client_ client_instance_id client_id metric attributes
    metric: What a client pushed last, under the client's own name for it; sums count on. The first 5,000 are shown.
  counter ottla_client_metrics_
    left_out_total: Numbers that clients pushed and that were not kept, because there were too many of them.
Broker and process
  gauge kafka_server_kafkaserver_
    brokerstate: 1 while the broker starts, 3 while it serves, 6 while it stops.
    linux_disk_read_bytes: Bytes that the process read from disks; on Linux.
    linux_disk_write_bytes: Bytes that it wrote to them.
  counter process_
    cpu_seconds_total: Seconds of processor time, of the system and of its own.
  gauge process_
    start_time_seconds: When the broker began to serve, in seconds since 1970.
    open_fds: Open files and sockets; on Linux, as the next three.
    max_fds: How many it may have.
    resident_memory_bytes: Bytes of memory in use.
    virtual_memory_bytes: Bytes of address space.
  gauge ottla_
    broker_uptime_seconds: Seconds since the broker began to serve.
  counter ottla_metrics_ metric
    series_overflow_total: Times a metric was over its limit of label sets; the rest is together as __other__.
    read_failure_total: Times a metric could not be read.
"""


def _read(text: str) -> Iterator[tuple[str, Metric]]:
    """The rows of the text with their titles; a line that is indented most goes on with the one before."""
    title = kind = prefix = ""
    labels: list[str] = []
    for line in text.replace("\n      ", " ").strip().splitlines():
        if line.startswith("    "):
            name, _, meaning = line.strip().partition(": ")
            yield title, Metric(prefix + name, kind, tuple(labels), meaning)
        elif line.startswith("  "):
            kind, prefix, *labels = line.split()
            prefix = prefix.removeprefix("-")
        else:
            title = line


_ROWS: Final = tuple(_read(_TEXT))
TITLES: Final[Mapping[str, str]] = {row.name: title for title, row in _ROWS}
TABLE: Final[Mapping[str, Metric]] = {row.name: row for _, row in _ROWS}


def counter(registry: Registry, name: str) -> Family[Counter]:
    """The counters of a row; KeyError when there is no such row."""
    row = TABLE[name]
    # As instruments of its own: not every counter of Kafka's ends in _total.
    return registry.instruments("broker", name, row.meaning, row.tags, Counter, exposed=name)


def gauge(registry: Registry, name: str) -> Family[Gauge]:
    row = TABLE[name]
    return registry.gauge("broker", name, row.meaning, row.tags, exposed=name)
