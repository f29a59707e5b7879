"""A misbehaving cluster in real time, for any Kafka client: brokers as processes behind a proxy that injects faults.

    with RealCluster(seed=7, faults=("kill", "cut", "slow"), seconds=10) as cluster:
        AnyClient(bootstrap_servers=cluster.bootstrap_servers)

drawing.py has the faults that a seed draws, weather.py decides which bytes pass, proxy.py passes them, processes.py
starts and kills, effects.py lets faults happen, cluster.py puts it together, recording.py writes the history that the
simulation's checker judges. docs/decisions/0064 says why it is built so.
"""
