"""The registry's client and serializers for programs with an event loop, under the names that confluent-kafka has."""
