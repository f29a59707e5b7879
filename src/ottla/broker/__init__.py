"""The server; its folders stand in the order a request meets them."""
