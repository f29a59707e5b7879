"""What a broker reports about itself: metrics, health, log lines and log levels."""
