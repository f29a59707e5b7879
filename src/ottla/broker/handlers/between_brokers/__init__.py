"""Requests that only brokers of the same cluster send each other; a broker that is alone serves none of them."""
