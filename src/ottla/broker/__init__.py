"""The server; its folders stand in the order a request meets them."""

from ottla.native import choose_rooms

choose_rooms()
