"""All planted bugs by name."""

from __future__ import annotations

from tests.planted import bugs_groups, bugs_replication, bugs_storage, bugs_transactions

BUGS = {
    bug.name: bug for bug in (*bugs_replication.BUGS, *bugs_storage.BUGS, *bugs_transactions.BUGS, *bugs_groups.BUGS)
}
