"""From send() to a produce request and back.

The path of `producer.send()`, file by file:

    hot_path.py                       send() itself, which both faces inherit; natively batches/_append.pyx
    batches/topic_state.py            which partition, and is its batch open? then the record is written and we are done
    batches/producer_batch.py         one open batch: records as bytes, and the delivery that their futures look at
    async_calls.py                    _send_slowly(): whatever has to be decided, or waited for; sync_calls.py is made
                                      of it, and producer.py and async_producer.py wait, each in its way
    intake.py                         arguments, serializers, interceptors, tracing
    core.py                           what both faces share; waits for the metadata of a topic
    batches/accumulator.py            opens the next batch with memory of batches/buffer_pool.py, at a partition that
                                      partitioner.py draws
    sending/sender_loop.py            turns: carries out what sending/sender.py plans, with the network
    sending/sequences.py              numbers batches, so that a repetition is known; transactions/manager.py has the
                                      identity they are numbered under
    sending/outcomes.py               reads the answers: done, again, split, failed
    batches/delivery.py               completes the futures; sending/failures.py keeps what nobody has heard of yet, for
                                      flush() and close()

native.py chooses the twin (batches/append_choice.py has the names). The rows of an Arrow table come in by
batches/arrow_columns.py, which checks them; batches/arrow_rows.py (natively _arrow_append.pxi) writes them.
"""
