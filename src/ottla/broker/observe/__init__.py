"""What a broker tells about itself: metrics, health, log lines and log levels."""
