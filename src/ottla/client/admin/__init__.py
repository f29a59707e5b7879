"""Questions and orders to a cluster.

A call of the admin client is a Plan (plans.py): which things it is about, which broker to ask for each of them, the
request, and how to read the answer. Plans are plain values and functions, one file per idea (topics, configs, groups,
...), together with what goes into them and what comes out. Work (plans.py too) keeps what is still to be asked;
driver.py sends. The faces (async_admin.py, admin.py) only name the calls.

The result of a call about many things is a dictionary. Did one of them fail, and it was the only one, its error is
raised; of several, PartlyFailed says which failed and which did not.
"""
