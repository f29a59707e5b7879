"""Client quotas: how much of the broker a user, a client id or an address may use, and how long it waits after that.

    rate.py            how fast something happens, in sampled windows as Kafka measures it
    token_bucket.py    tokens that flow in at a steady rate; changes of topics spend them
    limits.py          which quota holds for a client: the order of precedence
    meters.py          one meter for each client that has a quota, with its metrics; bounded
    charges.py         what the requests of one connection and API count against
    client_quotas.py   the parts put together; follows the cluster's image
    mutations.py       changes of topics: strict and permissive
    forwarded.py       whose change of a topic a broker passes on to the controller
    connections.py     how fast connections may come: per broker, listener and address

Nothing here reads a clock or waits: the time is an argument, and how long to wait is the answer.
"""
