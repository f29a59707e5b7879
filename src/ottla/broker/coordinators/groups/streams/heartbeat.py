"""StreamsGroupHeartbeat: join with epoch 0, stay with the current epoch, leave with -1.

    the member       is found or created; its report is written when it changed
    the topology     is that of the first member; a member with an older one hears that it is stale
    its topics       are compared with the cluster when something changed; what is missing becomes a status
    group epoch      moves when members, topics, the topology's readiness or the group's settings changed
    target           is made when the group epoch moved
    the member       goes one step towards its target; the answer says what it has

1. A member gets its tasks when it joins and when they changed.
2. A member one epoch behind is accepted if it has no more than was assigned. Every other epoch but the current one and
   0 is FENCED_MEMBER_EPOCH.
3. All records of a heartbeat are one batch, and the answer goes out when they are committed.
4. An empty group waits for more members before its first assignment (streams.initial.rebalance.delay.ms); until then
   everybody has nothing and the status says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.coordinators.effects import ClusterView, Effect, Reply, SetTimer, Token, Write
from ottla.broker.coordinators.groups.consumer.subscriptions import metadata_hash
from ottla.broker.coordinators.groups.group_responses import failing
from ottla.broker.coordinators.groups.modern_group import Draft
from ottla.broker.coordinators.groups.streams.configuring import ConfiguredTopology, configure
from ottla.broker.coordinators.groups.streams.endpoints import partitions_by_endpoint
from ottla.broker.coordinators.groups.streams.group import NOT_VALIDATED, StreamsGroup
from ottla.broker.coordinators.groups.streams.heartbeat_check import check_epoch, check_tasks, owned_tasks
from ottla.broker.coordinators.groups.streams.member import Endpoint, StreamsMember
from ottla.broker.coordinators.groups.streams.reconciliation import Goal, reconcile
from ottla.broker.coordinators.groups.streams.records import (
    current_record,
    epoch_record,
    member_record,
    topology_record,
)
from ottla.broker.coordinators.groups.streams.state import JOIN, UNREVOKED, Status
from ottla.broker.coordinators.groups.streams.target import assignment_configs, update_target
from ottla.broker.coordinators.groups.streams.tasks import Partitions
from ottla.broker.coordinators.groups.streams.timers import InitialAssignmentTimer, StreamsRevocationTimer
from ottla.broker.coordinators.groups.streams.topology import Topology, record_of_request, topology_of_record
from ottla.broker.coordinators.groups.timers import SessionTimer
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.group_level import StreamsGroupConfig
from ottla.errors import NONE, BrokerError, GroupMaxSizeReached, InvalidRequest
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import streams_group_heartbeat as wire
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


class Environment(NamedTuple):
    """What a decision about a streams group depends on besides the group itself."""

    cluster: ClusterView
    config: StreamsGroupConfig
    now_ms: int


class Heartbeat:
    """One heartbeat that is no leave. `draft` may begin with records that make the group one of this kind."""

    def __init__(
        self,
        draft: Draft[StreamsGroup],
        request: StreamsGroupHeartbeatRequest,
        context: RequestContext,
        environment: Environment,
    ) -> None:
        self.draft = draft
        self.request = request
        self.context = context
        self.environment = environment
        self.owned = owned_tasks(request)
        self.statuses: list[wire.Status] = []

    def effects(self, token: Token) -> list[Effect]:
        """Raises the error for the client."""
        was_empty = not self.draft.live.members
        before = self._find_member()
        after = self._write_member(before)
        topology = self._write_topology(after)
        configured = self._configure(topology)
        self._move_epoch(configured, must_move=after != before)
        delay = self._delay_first_assignment() if was_empty else []
        waits = update_target(self.draft, configured, self.environment.config, self.environment.now_ms)
        if waits is not None:
            self._say(Status.ASSIGNMENT_DELAYED, waits)
        reconciled = self._step(after)
        answer = self._answer(before, reconciled, configured)
        return [
            Write(tuple(self.draft.records), (Reply(token, answer),), failing(token, heartbeat_error)),
            session_timer(self.draft.group.group_id, reconciled, self.environment),
            *delay,
            *self._revocation_timer(after, reconciled),
        ]

    # -- the member --------------------------------------------------------------------------------------------------

    def _find_member(self) -> StreamsMember:
        request, group = self.request, self.draft.group
        if request.member_epoch != JOIN:
            member = group.member(request.member_id)
            check_epoch(member, request.member_epoch, self.owned)
            return member
        limit = self.environment.config.max_size
        if len(group.members) >= limit and request.member_id not in group.members:
            raise GroupMaxSizeReached(f"The streams group has reached its maximum capacity of {limit} members.")
        return group.members.get(request.member_id) or StreamsMember(request.member_id)

    def _write_member(self, before: StreamsMember) -> StreamsMember:
        """The member with what this request says; what it does not say stays."""
        request, timeout_ms = self.request, self.request.rebalance_timeout_ms
        endpoint, tags = request.user_endpoint, request.client_tags
        after = replace(
            before,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            topology_epoch=before.topology_epoch if request.topology is None else request.topology.epoch,
            client_id=self.context.client_id,
            client_host=self.context.client_host,
            process_id=before.process_id if request.process_id is None else request.process_id,
            endpoint=before.endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            client_tags=before.client_tags if tags is None else {each.key: each.value for each in tags},
        )
        if after != before or before.member_id not in self.draft.group.members:
            self.draft.write(member_record(self.draft.group.group_id, after))
        return after

    def _step(self, member: StreamsMember) -> StreamsMember:
        """Let the member take a step towards its target."""
        group = self.draft.group
        goal = Goal(
            epoch=group.assignment_epoch,
            target=group.target_of(member.member_id),
            is_free=lambda task: group.owners.is_free(task, member),
            is_free_in_process=lambda task: group.owners.is_free_in_process(task, member),
        )
        reconciled = reconcile(member, goal, self.owned)
        if reconciled != member:
            self.draft.write(current_record(group.group_id, reconciled))
        return reconciled

    def _revocation_timer(self, before: StreamsMember, after: StreamsMember) -> list[Effect]:
        """A member has its rebalance time-out to give up what it must. The timer is not cancelled: it checks."""
        if after.state is not UNREVOKED or after == before:
            return []
        key = StreamsRevocationTimer(self.draft.group.group_id, after.member_id, after.epoch)
        return [SetTimer(key, self.environment.now_ms + after.rebalance_timeout_ms)]

    # -- the topology ------------------------------------------------------------------------------------------------

    def _write_topology(self, member: StreamsMember) -> Topology:
        """The first member's topology is the group's."""
        group, sent = self.draft.group, self.request.topology
        known = group.topology
        if sent is not None:
            value = record_of_request(sent)
            if known is None:
                self.draft.write(topology_record(group.group_id, value))
                known = self.draft.group.topology
            elif known.epoch <= sent.epoch and known != topology_of_record(value):
                raise InvalidRequest("Topology updates are not supported yet.")
        if known is None:
            raise InvalidRequest(f"Group {group.group_id} has no topology yet; the member must join again.")
        if member.topology_epoch < known.epoch:
            self._say(
                Status.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{known.epoch}.",
            )
        return known

    def _configure(self, topology: Topology) -> ConfiguredTopology:
        """What the topology is on the topics of now; looked at again only when something changed."""
        live = self.draft.live
        known = live.configured
        if known is None or known.topology_epoch != topology.epoch or not live.is_metadata_checked:
            found = metadata_hash(self.environment.cluster, topology.required_topics)
            if known is None or (known.topology_epoch, known.metadata_hash) != (topology.epoch, found):
                known = configure(topology, found, self.environment.cluster)
            live.configured = known
        if known.is_ready:
            check_tasks(self.owned, known)
        return known

    # -- the group ---------------------------------------------------------------------------------------------------

    def _move_epoch(self, configured: ConfiguredTopology, *, must_move: bool) -> None:
        group = self.draft.group
        configs = assignment_configs(self.environment.config)
        validated = configured.topology_epoch if configured.is_ready else NOT_VALIDATED
        now = (configured.metadata_hash, validated, configs)
        if must_move or now != (group.metadata_hash, group.validated_topology_epoch, group.assignment_configs):
            self.draft.write(epoch_record(group.group_id, group.epoch + 1, *now))
        self.draft.live.checked_epoch = self.draft.group.epoch

    def _delay_first_assignment(self) -> list[Effect]:
        """An empty group waits for more members; those that come meanwhile do not make it wait longer."""
        live, delay_ms = self.draft.live, self.environment.config.initial_rebalance_delay_ms
        if delay_ms <= 0 or self.environment.now_ms < live.delayed_until_ms:
            return []
        live.delayed_until_ms = self.environment.now_ms + delay_ms
        return [SetTimer(InitialAssignmentTimer(live.group_id), live.delayed_until_ms)]

    # -- the answer --------------------------------------------------------------------------------------------------

    def _say(self, status: Status, detail: str) -> None:
        self.statuses.append(wire.Status(status_code=status.value, status_detail=detail))

    def _answer(
        self, before: StreamsMember, after: StreamsMember, configured: ConfiguredTopology
    ) -> StreamsGroupHeartbeatResponse:
        request, live = self.request, self.draft.live
        answer = empty_answer(after.member_id, after.epoch)
        answer.heartbeat_interval_ms = self.environment.config.heartbeat_interval_ms
        if request.member_epoch == JOIN or before.assigned != after.assigned:
            tasks = after.assigned.tasks
            answer.active_tasks = _wire_tasks(tasks.active)
            answer.standby_tasks = _wire_tasks(tasks.standby)
            answer.warmup_tasks = _wire_tasks(tasks.warmup)
            if after.endpoint is not None:
                live.endpoint_epoch += 1
        answer.endpoint_information_epoch = live.endpoint_epoch
        if live.endpoint_epoch != request.endpoint_information_epoch:
            answer.partitions_by_user_endpoint = partitions_by_endpoint(self.draft.group, self.environment.cluster)
        if configured.problem is not None:
            self._say(configured.problem.status, configured.problem.detail)
        if request.shutdown_application and live.shutdown_by is None:
            live.shutdown_by = request.member_id
        if live.shutdown_by is not None:
            self._say(Status.SHUTDOWN_APPLICATION, shutdown_detail(live.shutdown_by))
        answer.status = self.statuses
        return answer


def shutdown_detail(member_id: str) -> str:
    return (
        f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire "
        "application."
    )


def _wire_tasks(tasks: Partitions) -> list[wire.TaskIds]:
    return [wire.TaskIds(subtopology_id=name, partitions=sorted(each)) for name, each in sorted(tasks.items())]


def session_timer(group_id: str, member: StreamsMember, environment: Environment) -> SetTimer:
    at_ms = environment.now_ms + environment.config.session_timeout_ms
    return SetTimer(SessionTimer(group_id, member.member_id), at_ms)


def empty_answer(member_id: str, epoch: int, statuses: Iterable[wire.Status] = ()) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        error_code=NONE,
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=0,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=list(statuses),
        endpoint_information_epoch=0,
    )


def left_answer(request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    return empty_answer(request.member_id, request.member_epoch)


def heartbeat_error(error: BrokerError) -> StreamsGroupHeartbeatResponse:
    answer = empty_answer("", 0)
    answer.error_code, answer.error_message = error.code, error.brief
    answer.status = None
    return answer
