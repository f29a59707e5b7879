"""The controller, the one broker that orders the others: a function on images.

    event + state -> changes, replies        controller.py (decide), with one file per kind of decision
    before, after -> orders to brokers       orders.py
    orders -> answers, in order, retried     broker_channel.py

Nothing here but broker_channel.py knows time or a network; broker/cluster/controller_role.py runs it. What is
decided is in the image, so that a controller that takes over in the middle of anything can go on: a topic that is
being deleted has its note, a partition that moves has its adding and removing replicas. What only this controller
knows (state.py) may be lost: it is found out again by asking the brokers.

    leaders.py                               who leads a partition, who is in sync: on one partition, with no cluster
    partition_states.py, replica_states.py   the tables of states and moves
    broker_changes.py                        brokers come, go, come back; directories fail; a controller takes over
    isr_changes.py                           AlterPartition
    controlled_shutdown.py, topic_deletion.py, reassignment.py, leader_rebalance.py    as they are called
    settings_changes.py                      settings that say who may lead
    topics_found.py                          what others wrote past the controller
    admin_changes.py                         what becomes of the changes that administrators' requests ask for
"""
