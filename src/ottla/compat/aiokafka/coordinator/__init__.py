"""aiokafka.coordinator: only its assignors are for programs."""
