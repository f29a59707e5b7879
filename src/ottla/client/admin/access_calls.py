"""Calls of the admin clients about who may what and how much: access rules, quotas, passwords, tokens.

Part of AdminCalls (calls.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client.admin.arguments import several
from ottla.client.admin.later import loaded_when_used
from ottla.client.admin.plans import Carrier

if TYPE_CHECKING:
    from ottla.client.admin import access, credentials, quotas
else:
    access, credentials, quotas = map(loaded_when_used, ("access", "credentials", "quotas"))


class AccessCalls(Carrier):
    """The calls; whoever inherits them carries out plans."""

    _random_bytes: Callable[[int], bytes]

    async def describe_acls(
        self, acl_filter: access.AclFilter | None = None, *, timeout: float | None = None
    ) -> list[access.AclBinding]:
        """The access rules that a filter lets through; all of them without one."""
        return await self._ask(access.DescribeAcls(acl_filter or access.AclFilter()), timeout)

    async def create_acls(self, bindings: Iterable[access.AclBinding], *, timeout: float | None = None) -> None:
        """Add access rules."""
        await self._carry_out(access.CreateAcls(), bindings, timeout)

    async def delete_acls(
        self, filters: Iterable[access.AclFilter], *, timeout: float | None = None
    ) -> dict[access.AclFilter, list[access.AclBinding]]:
        """Take access rules away; returns those that each filter hit."""
        return await self._carry_out(access.DeleteAcls(), filters, timeout)

    async def describe_client_quotas(
        self, filters: Sequence[quotas.QuotaFilter] = (), *, strict: bool = False, timeout: float | None = None
    ) -> dict[quotas.EntityKey, dict[str, float]]:
        """Quotas of the entities that the filters let through."""
        return await self._ask(quotas.DescribeQuotas(filters, strict), timeout)

    async def alter_client_quotas(
        self,
        changes: Iterable[tuple[quotas.QuotaEntity, Mapping[str, float | None]]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set quotas of entities such as {"user": "alice"}; None takes one away."""
        wanted = {quotas.key_of(entity): limits for entity, limits in changes}
        await self._carry_out(quotas.AlterQuotas(wanted, validate_only), wanted, timeout)

    async def describe_user_scram_credentials(
        self, users: Sequence[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, tuple[credentials.ScramCredentialInfo, ...]]:
        """Which users have SCRAM passwords, and of which kind; all of them unless some are named."""
        if users is None:
            return await self._ask(credentials.DescribeAllScramCredentials(), timeout)
        return await self._carry_out(credentials.DescribeScramCredentials(), several(users), timeout)

    async def alter_user_scram_credentials(
        self, changes: Iterable[credentials.ScramUpsertion | credentials.ScramDeletion], *, timeout: float | None = None
    ) -> None:
        """Give users SCRAM passwords or take them away."""
        wanted = list(changes)
        plan = credentials.AlterScramCredentials(wanted, self._random_bytes)
        await self._carry_out(plan, [each.user for each in wanted], timeout)

    async def create_delegation_token(
        self,
        *,
        renewers: Sequence[credentials.Principal] = (),
        owner: credentials.Principal | None = None,
        max_lifetime_ms: int = -1,
        timeout: float | None = None,
    ) -> credentials.DelegationToken:
        """A token that can be used instead of a password for a while."""
        return await self._ask(credentials.CreateToken(renewers, owner, max_lifetime_ms), timeout)

    async def renew_delegation_token(self, hmac: bytes, *, period_ms: int = -1, timeout: float | None = None) -> int:
        """Let a token live longer; returns its new time of expiry."""
        return await self._ask(credentials.RenewToken(hmac, period_ms), timeout)

    async def expire_delegation_token(self, hmac: bytes, *, period_ms: int = -1, timeout: float | None = None) -> int:
        """Let a token end, at once unless a period is given; returns its time of expiry."""
        return await self._ask(credentials.ExpireToken(hmac, period_ms), timeout)

    async def describe_delegation_tokens(
        self, owners: Sequence[credentials.Principal] | None = None, *, timeout: float | None = None
    ) -> list[credentials.DelegationToken]:
        """Tokens of these owners, or all that we may see."""
        return await self._ask(credentials.DescribeTokens(owners), timeout)
