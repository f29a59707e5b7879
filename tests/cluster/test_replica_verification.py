"""ReplicaVerificationTool of Apache Kafka 4.3 reads the copies of a cluster of ours and finds no difference."""

from __future__ import annotations

import pytest
from tests.cluster.replica_verification import check_verified
from tests.conformance.java_programs import jars_or_skip

from ottla.testing import KafkaCluster
from ottla.testing.promises import NumberedLoad


@pytest.mark.long
def test_the_verification_tool_of_kafka_4_finds_no_difference(cluster: KafkaCluster) -> None:
    jars = jars_or_skip("4.3")
    with NumberedLoad(cluster.bootstrap_servers, "clicks", 3, compression_type="lz4") as load:
        load.wait_for(300)
    load.check_cluster(cluster)
    check_verified(jars, cluster.bootstrap_servers, "clicks")
