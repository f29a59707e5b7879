"""The group from inside: how a consumer becomes a member, stays one, and leaves.

Two protocols, one way to drive them (decisions.py has the values):

    classic.py    JoinGroup, SyncGroup, Heartbeat, LeaveGroup; the members assign among themselves (assignors.py)
    consumer.py   ConsumerGroupHeartbeat (KIP-848); the coordinator assigns, members reconcile at their own pace

A membership decides and never waits. The consumer's loop asks it again and again:

    for decision in membership.plan(now_ms):
        Ask                   send it to the group's coordinator; then answered(ask, response, now_ms) or
                              failed(ask, error, now_ms), exactly once; several may be on their way
        ForgetCoordinator     look the coordinator up again before the next Ask
        LearnTopics           the metadata must cover these; call metadata_changed(view, now_ms) when it does
        Revoke, Lost, Assigned   carry out in this order, in the application's thread if there is a rebalance listener,
                              then carried_out(decision, now_ms)
        Warn                  log it
        Fail                  the next poll() raises it
        WakeAt                nothing happens before that time unless somebody calls

and tells it what happens: polled(now_ms) at each poll, subscription_changed(...) and metadata_changed(...) when they
do, commit_refused(error, now_ms) when a commit found out first, leave(now_ms) at the end.

1. Decisions come out in the order in which they must be carried out, each one once.
2. A partition is ours from the moment Assigned comes out until a Revoke or Lost that has it was carried out.
   Revoke: commit first, the group waits. Lost: somebody else may have it already, do not commit.
3. plan() must be called at the times of WakeAt also while the application works on records: heartbeats go on. The
   application's pace is told by polled(); a consumer that has not polled for max.poll.interval.ms leaves the group,
   says why, and joins again at its next poll.
"""
