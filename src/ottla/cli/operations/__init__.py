"""What `ottla` and Kafka's own commands do alike, once: questions and orders to a cluster, without a word of output.

An operation gets an admin client (or a producer, a consumer) and values, and gives values. How they are asked for and
told is the commands' own: `ottla` in commands/, Kafka's in kafka/, to the byte.

offsets.py        where partitions begin and end
configs.py        settings of topics, brokers and client metrics are set and put back
outcomes.py       what became of each of many things
transactions.py   which transactions are open, and which of them hang
load.py           records at a rate, and the figures that people parse
"""
