"""The producer's identity and its transactions, as one state machine in parts."""
