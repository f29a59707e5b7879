"""The truth about the cluster, and who decides it.

The truth is one value, the `ClusterImage` (image.py, made of what model.py declares): brokers, topics with their
partitions, settings, features, quotas, credentials. It never changes; a `Change` (changes.py) gives the next image,
and that is the only way. Who wants something changed makes a plan: a plain
function from the image and a request to the changes it needs and the answers it gives, with Kafka's rules and error
codes:

    topics.py, partitions.py      create and delete topics, more partitions; placement.py says on which brokers
    configs.py                    alter settings; described.py describes them, config_layers.py knows where values come
                                  from
    features.py, quotas.py        finalized feature levels, client quotas
    credentials.py                SCRAM records; kept and told (never their secrets), not yet used to let anybody in
    elections.py, reassignments.py, brokers.py    who leads, who should have it, who is there

A plan has no effect. The caller commits its changes to a `MetadataStore` (store/), which makes them durable, all or
none, and gives the next image; then the answers may go out. Where several may write (ZooKeeper), the store says when
somebody else was faster, and the plan is made again from the newer image. So there is no moment at which half of a
request is true, and everything that is decided can be tested by comparing lists.

    image = store.load()
    plan = create_topics(image, request, rules, random)
    image = store.commit(plan.changes)
    respond(plan.answers)
"""
