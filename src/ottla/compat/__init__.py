"""Other libraries' names over our client: change the import, and a program written for them runs on Ottla.

    from ottla.compat.confluent_kafka import Consumer, Producer       instead of   from confluent_kafka import ...
    from ottla.compat.kafka import KafkaConsumer, KafkaProducer       instead of   from kafka import ...

What a program can see is kept: names, arguments, units of time, shapes of records and errors, and the defaults that
decide what it reads and where its keys go (librdkafka reads committed records only and places keys by CRC-32). Settings
that have no meaning here are accepted and named once in the log with the reason; unknown ones are an error with the
nearest name.
"""
