"""What the active controller of a metadata log decides: functions on images, as Kafka 4.3's QuorumController decides
it.

    image, request -> Plan(changes, answers)

Nothing here knows time, a network or a log: times, sessions and the next offset are arguments. The brokers read in the
log what was decided, so nobody is given orders; broker/cluster/quorum/ runs it.

    partition_changes.py    one partition: in-sync set, leader, eligible replicas, the end of a reassignment
    rules.py                what decisions ask about the cluster beside one partition
    registrations.py        a broker or a controller registers; a broker is unregistered
    heartbeats.py           sessions, and what a heartbeat asks for: fenced, unfenced, stopping, directories
    fencing.py              what the partitions do when a broker comes, goes, stops, or loses a directory
    isr_changes.py          AlterPartition
    directories.py          AssignReplicasToDirs
    admin_changes.py        what becomes of the changes that administrators' requests ask for
    periodic.py             what is looked at again and again
    activation.py           what a controller writes first
"""
