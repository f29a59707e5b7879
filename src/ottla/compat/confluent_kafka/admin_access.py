"""The calls of AdminClient about access rules and users."""

from __future__ import annotations

from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.admin.plans import PartlyFailed
from ottla.compat.confluent_kafka import acls as their_acls
from ottla.compat.confluent_kafka import admin_checks as check
from ottla.compat.confluent_kafka import scram
from ottla.compat.confluent_kafka.acls import AclBinding, AclBindingFilter
from ottla.compat.confluent_kafka.futures import Future, Futures
from ottla.compat.confluent_kafka.scram import UserScramCredentialAlteration, UserScramCredentialsDescription


class AccessCalls:
    """A part of AdminClient."""

    _ours: Admin
    _futures: Futures

    def create_acls(
        self, acls: list[AclBinding], *, request_timeout: float | None = None
    ) -> dict[AclBinding, Future[None]]:
        rules = check.all_of(AclBinding, acls)
        return self._futures.each(
            rules, lambda: self._ours.create_acls([each.ours for each in rules], timeout=request_timeout)
        )

    def describe_acls(
        self, acl_binding_filter: AclBindingFilter, *, request_timeout: float | None = None
    ) -> Future[list[AclBinding]]:
        (wanted,) = check.all_of(AclBindingFilter, [acl_binding_filter])

        def call() -> list[AclBinding]:
            found = self._ours.describe_acls(wanted.ours, timeout=request_timeout)
            return [their_acls.theirs(each) for each in found]

        return self._futures.one(call)

    def delete_acls(
        self, acl_binding_filters: list[AclBindingFilter], *, request_timeout: float | None = None
    ) -> dict[AclBindingFilter, Future[list[AclBinding]]]:
        filters = check.all_of(AclBindingFilter, acl_binding_filters)

        def call() -> Any:
            return self._ours.delete_acls([each.ours for each in filters], timeout=request_timeout)

        return self._futures.each(filters, call, lambda found: [their_acls.theirs(each) for each in found])

    def describe_user_scram_credentials(
        self, users: list[str] | None = None, *, request_timeout: float | None = None
    ) -> Any:
        """A future of all users when none are named, else a future for each."""
        check.users(users)

        def call() -> dict[str, UserScramCredentialsDescription]:
            try:
                return scram.descriptions(self._ours.describe_user_scram_credentials(users, timeout=request_timeout))
            except PartlyFailed as error:
                raise PartlyFailed(scram.descriptions(error.succeeded), error.failed) from None

        if users is None:
            return self._futures.one(call)
        return self._futures.each(users, call, lambda found: found)

    def alter_user_scram_credentials(
        self, alterations: list[UserScramCredentialAlteration], *, request_timeout: float | None = None
    ) -> dict[str, Future[None]]:
        changes = [each.ours for each in check.alterations(alterations)]
        return self._futures.each(
            dict.fromkeys(each.user for each in alterations),
            lambda: self._ours.alter_user_scram_credentials(changes, timeout=request_timeout),
        )
