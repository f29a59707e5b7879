"""Every error is declared once, says something of its own, and carries Kafka's policy."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import errors
from ottla.errors import (
    ERRORS,
    ERRORS_BY_NAME,
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerError,
    ConnectionClosed,
    IllegalMove,
    InvalidConfig,
    InvalidSetting,
    MalformedMessage,
    NetworkException,
    NotEnoughReplicas,
    OttlaError,
    UnknownErrorCode,
    UnknownServerError,
    broker_error,
    error_for_code,
    name_of_code,
    raise_for_code,
)

# Facts of Kafka's protocol: code, name, flags. "refresh" means that metadata or the coordinator must be looked up anew.
FACTS = """
-1 UNKNOWN_SERVER_ERROR
0 NONE
1 OFFSET_OUT_OF_RANGE
2 CORRUPT_MESSAGE retriable
3 UNKNOWN_TOPIC_OR_PARTITION retriable refresh-metadata refresh
4 INVALID_FETCH_SIZE
5 LEADER_NOT_AVAILABLE retriable refresh-metadata refresh
6 NOT_LEADER_OR_FOLLOWER retriable refresh-metadata refresh
7 REQUEST_TIMED_OUT retriable
8 BROKER_NOT_AVAILABLE
9 REPLICA_NOT_AVAILABLE retriable refresh-metadata refresh
10 MESSAGE_TOO_LARGE
11 STALE_CONTROLLER_EPOCH
12 OFFSET_METADATA_TOO_LARGE
13 NETWORK_EXCEPTION retriable refresh-metadata refresh
14 COORDINATOR_LOAD_IN_PROGRESS retriable
15 COORDINATOR_NOT_AVAILABLE retriable refresh
16 NOT_COORDINATOR retriable refresh
17 INVALID_TOPIC_EXCEPTION invalid-configuration
18 RECORD_LIST_TOO_LARGE invalid-configuration
19 NOT_ENOUGH_REPLICAS retriable
20 NOT_ENOUGH_REPLICAS_AFTER_APPEND retriable
21 INVALID_REQUIRED_ACKS invalid-configuration
22 ILLEGAL_GENERATION application-recoverable
23 INCONSISTENT_GROUP_PROTOCOL
24 INVALID_GROUP_ID
25 UNKNOWN_MEMBER_ID application-recoverable
26 INVALID_SESSION_TIMEOUT
27 REBALANCE_IN_PROGRESS
28 INVALID_COMMIT_OFFSET_SIZE
29 TOPIC_AUTHORIZATION_FAILED invalid-configuration
30 GROUP_AUTHORIZATION_FAILED invalid-configuration
31 CLUSTER_AUTHORIZATION_FAILED invalid-configuration
32 INVALID_TIMESTAMP
33 UNSUPPORTED_SASL_MECHANISM invalid-configuration
34 ILLEGAL_SASL_STATE invalid-configuration
35 UNSUPPORTED_VERSION invalid-configuration
36 TOPIC_ALREADY_EXISTS
37 INVALID_PARTITIONS
38 INVALID_REPLICATION_FACTOR invalid-configuration
39 INVALID_REPLICA_ASSIGNMENT
40 INVALID_CONFIG invalid-configuration
41 NOT_CONTROLLER retriable
42 INVALID_REQUEST
43 UNSUPPORTED_FOR_MESSAGE_FORMAT invalid-configuration
44 POLICY_VIOLATION
45 OUT_OF_ORDER_SEQUENCE_NUMBER
46 DUPLICATE_SEQUENCE_NUMBER
47 INVALID_PRODUCER_EPOCH application-recoverable
48 INVALID_TXN_STATE
49 INVALID_PRODUCER_ID_MAPPING application-recoverable
50 INVALID_TRANSACTION_TIMEOUT
51 CONCURRENT_TRANSACTIONS retriable
52 TRANSACTION_COORDINATOR_FENCED
53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED invalid-configuration
54 SECURITY_DISABLED
55 OPERATION_NOT_ATTEMPTED
56 KAFKA_STORAGE_ERROR retriable refresh-metadata refresh
57 LOG_DIR_NOT_FOUND
58 SASL_AUTHENTICATION_FAILED invalid-configuration
59 UNKNOWN_PRODUCER_ID
60 REASSIGNMENT_IN_PROGRESS
61 DELEGATION_TOKEN_AUTH_DISABLED
62 DELEGATION_TOKEN_NOT_FOUND
63 DELEGATION_TOKEN_OWNER_MISMATCH
64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
65 DELEGATION_TOKEN_AUTHORIZATION_FAILED invalid-configuration
66 DELEGATION_TOKEN_EXPIRED
67 INVALID_PRINCIPAL_TYPE
68 NON_EMPTY_GROUP
69 GROUP_ID_NOT_FOUND
70 FETCH_SESSION_ID_NOT_FOUND retriable
71 INVALID_FETCH_SESSION_EPOCH retriable
72 LISTENER_NOT_FOUND retriable refresh-metadata refresh
73 TOPIC_DELETION_DISABLED
74 FENCED_LEADER_EPOCH retriable refresh-metadata refresh
75 UNKNOWN_LEADER_EPOCH retriable
76 UNSUPPORTED_COMPRESSION_TYPE
77 STALE_BROKER_EPOCH
78 OFFSET_NOT_AVAILABLE retriable
79 MEMBER_ID_REQUIRED
80 PREFERRED_LEADER_NOT_AVAILABLE retriable refresh-metadata refresh
81 GROUP_MAX_SIZE_REACHED
82 FENCED_INSTANCE_ID application-recoverable
83 ELIGIBLE_LEADERS_NOT_AVAILABLE retriable refresh-metadata refresh
84 ELECTION_NOT_NEEDED retriable refresh-metadata refresh
85 NO_REASSIGNMENT_IN_PROGRESS
86 GROUP_SUBSCRIBED_TO_TOPIC
87 INVALID_RECORD invalid-configuration
88 UNSTABLE_OFFSET_COMMIT retriable
89 THROTTLING_QUOTA_EXCEEDED retriable
90 PRODUCER_FENCED application-recoverable
91 RESOURCE_NOT_FOUND
92 DUPLICATE_RESOURCE
93 UNACCEPTABLE_CREDENTIAL
94 INCONSISTENT_VOTER_SET
95 INVALID_UPDATE_VERSION
96 FEATURE_UPDATE_FAILED
97 PRINCIPAL_DESERIALIZATION_FAILURE
98 SNAPSHOT_NOT_FOUND
99 POSITION_OUT_OF_RANGE
100 UNKNOWN_TOPIC_ID retriable refresh-metadata refresh
101 DUPLICATE_BROKER_REGISTRATION
102 BROKER_ID_NOT_REGISTERED
103 INCONSISTENT_TOPIC_ID retriable refresh-metadata refresh
104 INCONSISTENT_CLUSTER_ID
105 TRANSACTIONAL_ID_NOT_FOUND
106 FETCH_SESSION_TOPIC_ID_ERROR retriable
107 INELIGIBLE_REPLICA
108 NEW_LEADER_ELECTED
109 OFFSET_MOVED_TO_TIERED_STORAGE
110 FENCED_MEMBER_EPOCH
111 UNRELEASED_INSTANCE_ID
112 UNSUPPORTED_ASSIGNOR
113 STALE_MEMBER_EPOCH
114 MISMATCHED_ENDPOINT_TYPE
115 UNSUPPORTED_ENDPOINT_TYPE
116 UNKNOWN_CONTROLLER_ID
117 UNKNOWN_SUBSCRIPTION_ID
118 TELEMETRY_TOO_LARGE
119 INVALID_REGISTRATION
120 TRANSACTION_ABORTABLE abort-transaction
121 INVALID_RECORD_STATE
122 SHARE_SESSION_NOT_FOUND retriable
123 INVALID_SHARE_SESSION_EPOCH retriable
124 FENCED_STATE_EPOCH
125 INVALID_VOTER_KEY
126 DUPLICATE_VOTER
127 VOTER_NOT_FOUND
128 INVALID_REGULAR_EXPRESSION
129 REBOOTSTRAP_REQUIRED
130 STREAMS_INVALID_TOPOLOGY
131 STREAMS_INVALID_TOPOLOGY_EPOCH
132 STREAMS_TOPOLOGY_FENCED
133 SHARE_SESSION_LIMIT_REACHED retriable
"""


def parsed(text: str) -> dict[int, tuple[str, set[str]]]:
    rows = [line.split() for line in text.split("\n") if line[:1] in "-0123456789" and line]
    return {int(code): (name, set(flags)) for code, name, *flags in rows}


def flags_of(error: type[BrokerError]) -> set[str]:
    flags = {
        "retriable": error.retriable,
        "refresh-metadata": error.refresh_metadata,
        "refresh": error.refresh_metadata or error.refresh_coordinator,
        "application-recoverable": error.application_recoverable,
        "abort-transaction": error.aborts_transaction,
        "invalid-configuration": error.invalid_configuration,
    }
    return {flag for flag, is_set in flags.items() if is_set}


def all_subclasses(error: type[OttlaError]) -> list[type[OttlaError]]:
    return [error, *(below for child in error.__subclasses__() for below in all_subclasses(child))]


# Other tests may declare their own errors; only the shipped ones are judged here.
SHIPPED = sorted({e for e in all_subclasses(OttlaError) if e.__module__ == "ottla.errors"}, key=lambda e: e.__name__)
CODED = {code: error for code, error in ERRORS.items() if error is not None}


def test_the_table_has_exactly_the_codes_of_the_protocol():
    assert set(ERRORS) == set(parsed(FACTS)) == set(range(-1, 134))


def test_errors_have_the_names_and_the_policies_of_the_protocol():
    facts = parsed(FACTS)
    assert {code: (error.name, flags_of(error)) for code, error in CODED.items()} == {
        code: facts[code] for code in CODED
    }
    assert all(error.code == code for code, error in CODED.items())


def test_the_facts_in_this_file_are_those_of_the_field_tables():
    fact_file = Path(__file__).parents[3] / "shared" / "protocol" / "errors.txt"
    if not fact_file.exists():
        pytest.skip("compares with the protocol tables of the workshop, which are no part of the repository")
    assert parsed(fact_file.read_text()) == parsed(FACTS)


def test_classes_are_named_like_the_errors_in_kafka():
    facts = parsed(FACTS)
    assert {code: error.__name__ for code, error in CODED.items()} == {
        code: facts[code][0].title().replace("_", "") for code in CODED
    }


def test_sentences_say_what_happened_and_end():
    def is_sentence(error):
        is_one = error.sentence.endswith(".") and error.sentence == " ".join(error.sentence.split())
        return is_one and error.what and not error.what.endswith(".")

    assert [error for error in SHIPPED if not is_sentence(error)] == []


def test_sentences_say_what_to_do_and_do_not_only_spell_the_name_out():
    assert [code for code, error in CODED.items() if not error.remedy] == []
    assert [code for code, error in CODED.items() if error.name.replace("_", " ").lower() == error.what.lower()] == []


def test_no_two_errors_say_the_same():
    assert len({error.sentence for error in SHIPPED}) == len(SHIPPED)
    assert len({error.what for error in SHIPPED}) == len(SHIPPED)


def test_none_is_known_and_is_not_an_error():
    assert ERRORS[0] is None
    assert ERRORS_BY_NAME["NONE"] is None
    assert name_of_code(0) == "NONE"
    raise_for_code(0)
    with pytest.raises(ValueError, match="NONE"):
        error_for_code(0)


def test_an_error_is_found_by_code_and_by_name():
    assert error_for_code(19) is ERRORS_BY_NAME["NOT_ENOUGH_REPLICAS"] is NotEnoughReplicas
    assert name_of_code(19) == "NOT_ENOUGH_REPLICAS"


def test_the_tables_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        ERRORS[19] = None  # type: ignore[index]


def test_a_code_is_raised_with_the_message_of_the_broker_between_what_and_remedy():
    with pytest.raises(NotEnoughReplicas) as caught:
        raise_for_code(19, "orders-3 has 1 of 2.")
    assert str(caught.value) == f"{NotEnoughReplicas.what}: orders-3 has 1 of 2. {NotEnoughReplicas.remedy}"


def test_an_error_without_detail_is_its_sentence():
    assert str(NotEnoughReplicas()) == NotEnoughReplicas.sentence


def test_an_unknown_code_keeps_its_number_and_is_an_unknown_server_error():
    assert error_for_code(4711) is UnknownErrorCode
    error = broker_error(4711, "from the future")
    assert isinstance(error, UnknownServerError)
    assert (error.code, error.name, error.retriable) == (4711, "UNKNOWN_ERROR_CODE_4711", False)
    assert "code 4711, from the future" in str(error)
    assert name_of_code(-2) == "UNKNOWN_ERROR_CODE_-2"


def test_an_unknown_code_does_not_change_the_class_for_others():
    broker_error(4711)
    assert UnknownErrorCode().code == UnknownServerError.code == -1


@pytest.mark.parametrize(
    "error",
    [NotEnoughReplicas(), NotEnoughReplicas("x"), broker_error(4711, "x"), IllegalMove("a to b", story=["x", "y"])],
    ids=["bare", "detail", "unknown", "story"],
)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_copy_and_pickle(error, duplicate):
    twin = duplicate(error)
    assert type(twin) is type(error)
    assert (str(twin), vars(twin), twin.args) == (str(error), vars(error), error.args)


def test_a_long_detail_with_line_breaks_becomes_one_short_line():
    text = str(MalformedMessage("one\n" + "x" * 5000))
    assert "\n" not in text
    assert ": one x" in text
    assert len(text) < errors.DETAIL_LIMIT + len(MalformedMessage.sentence) + 10


def test_an_error_noticed_by_us_has_the_code_and_policy_of_its_kin_but_no_row():
    assert (ConnectionClosed.code, ConnectionClosed.retriable, ConnectionClosed.refresh_metadata) == (13, True, True)
    assert ConnectionClosed.name == "NETWORK_EXCEPTION"
    assert ERRORS[13] is NetworkException
    assert issubclass(InvalidSetting, InvalidConfig)


def test_local_errors_do_not_travel():
    assert not hasattr(MalformedMessage, "code")
    assert not hasattr(IllegalMove, "code")


def test_refusals_can_be_caught_by_kind():
    authentication = {e.code for e in CODED.values() if issubclass(e, AuthenticationFailed)}
    authorization = {e.code for e in CODED.values() if issubclass(e, AuthorizationFailed)}
    assert authentication == {33, 34, 58}
    assert authorization == {29, 30, 31, 53, 65}


def test_an_illegal_move_tells_the_recent_story():
    assert "Recently: opened; closed." in str(IllegalMove("CLOSED to READY", story=["opened", "closed"]))
    assert "Recently" not in str(IllegalMove("CLOSED to READY"))


def test_a_code_declared_twice_is_refused():
    with pytest.raises(TypeError, match="19"):
        type("Again", (BrokerError,), {"__doc__": "Again."}, code=19)
    assert ERRORS[19] is NotEnoughReplicas


def test_errors_still_speak_when_python_drops_docstrings():
    program = "from ottla.errors import NotEnoughReplicas as E; print(E('x'), E.name, E.code)"
    run = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "Not enough replicas: x. NOT_ENOUGH_REPLICAS 19\n"


def test_a_whole_sentence_from_a_broker_of_our_own_is_not_said_twice():
    sent = str(errors.SecurityDisabled("no authorizer is configured"))
    assert str(errors.SecurityDisabled(sent)) == sent
