"""Consumer groups of the new protocol (KIP-848): members say what they want, the coordinator shares out.

A group has three layers, and a heartbeat moves its member down through them:

    its members, and what they subscribe to       group epoch        heartbeat.py, subscriptions.py, regex.py
    where each member should be                  assignment epoch   target.py, assignors.py, uneven.py
    where each member is                         member epoch       reconciliation.py

protocol.py is the door for the shard. group.py is the state, and only what records.py can write changes it; draft.py
shows a group as it will be once the records that are about to be written are. classic_members.py serves members that
still speak the classic protocol, migration.py turns a classic group into one of these and back.
"""
