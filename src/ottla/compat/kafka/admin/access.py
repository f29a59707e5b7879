"""The calls of KafkaAdminClient about access rules and users."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.admin.plans import PartlyFailed
from ottla.compat.kafka import acls as their_acls
from ottla.compat.kafka.acls import ACL, ACLFilter
from ottla.compat.kafka.admin.groups import failures
from ottla.compat.kafka.errors import IllegalArgumentError, NoError, theirs
from ottla.compat.kafka.users import UserScramCredentialDeletion, UserScramCredentialUpsertion
from ottla.errors import OttlaError


class AccessCalls:
    """A part of KafkaAdminClient."""

    _ours: Admin

    def describe_acls(self, acl_filter: ACLFilter) -> tuple[list[ACL], type[NoError]]:
        return [their_acls.theirs(each) for each in self._ours.describe_acls(acl_filter.ours)], NoError

    def create_acls(self, acls: Iterable[ACL]) -> dict[str, list[Any]]:
        wanted = list(acls)
        if not all(isinstance(each, ACL) for each in wanted):
            raise IllegalArgumentError("acls must contain ACL objects")
        failed = failures(
            lambda: self._ours.create_acls([each.our_rule for each in wanted]), wanted, lambda each: each.our_rule
        )
        return {
            "succeeded": [each for each in wanted if each not in failed],
            "failed": [type(theirs(error)) for error in failed.values()],
        }

    def delete_acls(self, acl_filters: Iterable[ACLFilter]) -> list[tuple[ACLFilter, list[ACL], Any]]:
        wanted = list(acl_filters)
        if not all(isinstance(each, ACLFilter) for each in wanted):
            raise IllegalArgumentError("acl_filters must contain ACLFilter type objects")
        removed: dict[Any, Any] = {}
        failed = failures(
            lambda: removed.update(self._ours.delete_acls([each.ours for each in wanted])),
            wanted,
            lambda each: each.ours,
        )
        return [
            (
                each,
                [their_acls.theirs(rule) for rule in removed.get(each.ours, ())],
                type(theirs(failed.get(each, NoError()))),
            )
            for each in wanted
        ]

    def describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        wanted = None if users is None else list(users)
        try:
            found, failed = self._ours.describe_user_scram_credentials(wanted), {}
        except PartlyFailed as error:
            found, failed = error.succeeded, error.failed
        except OttlaError as error:
            if wanted is None or len(wanted) != 1:
                raise
            found, failed = {}, {wanted[0]: error}
        shown: dict[str, dict[str, Any]] = {
            user: {
                "error": None,
                "credential_infos": [{"mechanism": each.mechanism, "iterations": each.iterations} for each in infos],
            }
            for user, infos in found.items()
        }
        return shown | {user: {"error": str(theirs(error)), "credential_infos": []} for user, error in failed.items()}

    def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialDeletion | UserScramCredentialUpsertion]
    ) -> dict[str, str | None]:
        wanted = list(alterations)
        users = list(dict.fromkeys(each.user for each in wanted))
        failed = failures(
            lambda: self._ours.alter_user_scram_credentials([each.ours for each in wanted]), users, lambda user: user
        )
        return {user: str(theirs(failed[user])) if user in failed else None for user in users}


def _outcome(error: OttlaError | None) -> Any:
    return NoError if error is None else type(theirs(error))
