"""What controllers of a metadata log answer, and brokers do not, or otherwise: Raft, the life of brokers, what brokers
pass on. Everything else a controller answers as any broker does, with the handlers beside this room."""
