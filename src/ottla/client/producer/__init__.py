"""From send() to a produce request and back.

A record walks through these files: producer.py or async_producer.py (the faces) take it; while nothing has to be
decided it goes straight into the open batch of its partition (hot_path.py, topic_state.py, producer_batch.py; natively
_append.pyx, chosen in append_choice.py). When a batch is full the accumulator opens another with memory of the pool
(accumulator.py, buffer_pool.py), at a partition that partitioner.py draws. The sender plans turns (sender.py),
sender_loop.py carries them out with the network, transactions.py stamps the batches, outcomes.py takes the answers, and
delivery.py tells the futures. failures.py keeps what nobody has heard of yet, for flush() and close(). The rows of an
Arrow table come in by arrow_columns.py, which checks them; arrow_rows.py (natively _arrow_append.pxi) writes them.
"""
