"""From a frame to its answer: limits, who asks, which handler, metrics. Start with dispatch.py."""
