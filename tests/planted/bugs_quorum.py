"""Bugs of the quorum (src/ottla/cluster/raft), which its schedules find: `python -m ottla.simulation.quorum`."""

from __future__ import annotations

from tests.planted.bug import Bug

RAFT = "cluster/raft/raft.py"
LEADING = "cluster/raft/leading.py"
FETCHING = "cluster/raft/fetching.py"
ANSWERS = "cluster/raft/log_answers.py"
VOTERS = "cluster/raft/voters.py"
CHANGES = "cluster/raft/voter_changes.py"
LOG = "cluster/raft/log.py"
PEERS = "cluster/raft/peers.py"
QUORUM_STATE = "cluster/raft/quorum_state.py"


def _bug(name: str, file: str, old: str, new: str, breaks: str, resembles: str = "") -> Bug:
    return Bug(name, file, old, new, breaks, resembles)


BUGS = (
    _bug(
        "vote-for-who-has-less",
        RAFT,
        "return self.state.leader_id == NOBODY and is_up_to_date",
        "return self.state.leader_id == NOBODY",
        "a leader lacks what is committed",
        "Raft, section 5.4.1",
    ),
    _bug(
        "two-votes-in-an-epoch",
        RAFT,
        "            if self.state.voted_id != NOBODY:\n",
        "            if self.state.voted_id == -2:\n",
        "two leaders in one epoch",
    ),
    _bug(
        "a-vote-is-not-remembered",
        RAFT,
        "self.state = QuorumState(self.epoch, self.state.leader_id, *candidate)",
        "pass",
        "two leaders in one epoch",
    ),
    _bug(
        "votes-leave-before-they-are-saved",
        RAFT,
        "        return self._saved == self.state\n",
        "        return True\n",
        "after a power cut a node votes again",
        "KAFKA-9261",
    ),
    _bug(
        "quorum-state-is-not-read",
        RAFT,
        "read_quorum_state(files, log.directory) or QuorumState()",
        "QuorumState()",
        "a node that comes back votes again",
    ),
    _bug(
        "a-leader-leads-on-after-a-restart",
        RAFT,
        "                self._move(Role.RESIGNED)\n                self._candidates = self._other_voters()",
        "                self._election = Election(self.node.key, self.voters)\n"
        "                self.role = Role.CANDIDATE\n                self._lead(now_ms)",
        "what it appends after a power cut has another history in the same epoch",
    ),
    _bug(
        "high-watermark-of-an-older-epoch",
        LEADING,
        "        if common <= self.epoch_start or common",
        "        if common",
        "what a new leader takes for committed is cut off later",
        "Raft, figure 8",
    ),
    _bug(
        "half-is-a-majority",
        VOTERS,
        "        return len(self) // 2 + 1\n",
        "        return max(1, len(self) // 2)\n",
        "two leaders, lost commits",
    ),
    _bug(
        "a-leader-counts-what-it-has-not-synced",
        RAFT,
        "leadership.advance(self.voters, self.log.flushed_offset)",
        "leadership.advance(self.voters, self.log.end_offset)",
        "a power cut takes what was committed",
    ),
    _bug(
        "a-follower-fetches-behind-what-it-has-not-synced",
        RAFT,
        "        if self.log.flushed_offset < self.log.end_offset or not",
        "        if not",
        "a power cut takes what was committed",
        "KAFKA-12245",
    ),
    _bug(
        "progress-without-a-look-at-the-epoch",
        ANSWERS,
        "    if end.epoch == epoch and offset <= end.end_offset:\n",
        "    if offset <= log.end_offset:\n",
        "a follower keeps the end of another history",
    ),
    _bug(
        "divergence-is-not-cut",
        FETCHING,
        "        self.log.truncate_to(common, now_ms)\n",
        "        self.log.truncate_to(min(self.log.end_offset, common + 1), now_ms)\n",
        "a follower keeps a record of another history",
    ),
    _bug(
        "cut-by-the-offset-alone",
        FETCHING,
        "            common = max(own.end_offset, 0)\n",
        "            common = min(self.log.end_offset, end_offset)\n",
        "a follower keeps a record of another history",
        "KIP-101",
    ),
    _bug(
        "another-history-before-the-beginning",
        ANSWERS,
        "(offset < start or epoch < log.snapshots[0].epoch)",
        "offset < start",
        "a log of another history is taken for a part of ours",
    ),
    _bug(
        "voters-are-not-cut",
        FETCHING,
        "        self.voters.cut(self.log.end_offset)\n",
        "",
        "a change of voters holds that was never committed",
    ),
    _bug(
        "voters-hold-when-they-are-committed",
        RAFT,
        "        record = self.fetching.voters.newest.record\n",
        "        record = self.fetching.voters.at(max(self.log.high_watermark, 0)).record\n",
        "two majorities that have no node in common",
    ),
    _bug(
        "two-changes-of-voters-at-a-time",
        CHANGES,
        "        if self._adding is not None or raft.voter_history.newest_offset > raft.leadership.high_watermark:\n",
        "        if raft.voter_history.newest_offset < 0:\n",
        "two majorities that have no node in common",
        "KIP-853",
    ),
    _bug(
        "a-voter-is-added-that-has-nothing",
        CHANGES,
        "        if progress is None or progress.caught_up_ms < 0 or now_ms",
        "        if progress is not None and now_ms",
        "the quorum waits for a node that is not there",
    ),
    _bug(
        "a-lost-disk-is-the-same-voter",
        VOTERS,
        "return known is not None and known.voter_directory_id in (ZERO_UUID, key.directory_id)",
        "return known is not None",
        "a node that forgot everything votes",
        "KIP-853",
    ),
    _bug(
        "a-leader-never-resigns",
        LEADING,
        "        if needed <= 0:\n",
        "        if needed <= 9:\n",
        "a leader that is cut off leads on, and nobody is told",
        "KAFKA-15489",
    ),
    _bug(
        "prospective-nodes-follow-the-leader-they-miss",
        RAFT,
        "            is_news = self.state.leader_id == NOBODY or (",
        "            is_news = True or (",
        "nobody is ever elected",
    ),
    _bug(
        "an-answer-of-another-epoch-counts",
        RAFT,
        "not is_ours or election is None or asked is None or sent.epoch != self.epoch:\n",
        "election is None or asked is None:\n",
        "a leader without a majority",
    ),
    _bug(
        "pre-votes-count-as-votes",
        RAFT,
        "        if asked.pre_vote is (self.role is Role.PROSPECTIVE) and sent.voter.id in self.voters.ids:\n",
        "        if sent.voter.id in self.voters.ids:\n",
        "a leader without a majority",
    ),
    _bug(
        "the-end-of-the-log-is-taken-for-committed",
        RAFT,
        "        self.log.update_high_watermark(leadership.high_watermark)\n",
        "        self.log.update_high_watermark(self.log.end_offset)\n",
        "what was shown is taken back",
    ),
    _bug(
        "a-log-goes-on-behind-a-snapshot-of-another-epoch",
        LOG,
        "        return (snapshot.epoch, snapshot.end_offset) > (self.last_epoch, self.end_offset)\n",
        "        return snapshot.end_offset > self.end_offset\n",
        "a follower cannot take the snapshot that it needs",
    ),
    _bug(
        "an-unattached-node-keeps-the-vote-of-an-older-epoch",
        RAFT,
        "        if epoch > self.epoch:\n            self.state = QuorumState(epoch)\n",
        "        if epoch > self.epoch:\n"
        "            self.state = QuorumState(epoch, NOBODY, self.state.voted_id, self.state.voted_directory_id)\n",
        "nobody is elected, because all have voted for who is gone",
    ),
    _bug(
        "a-removed-leader-leads-on",
        RAFT,
        "            self.resign(now_ms)  # it was taken out of the voters, and that is committed\n",
        "            pass\n",
        "a leader that has no vote",
    ),
)
