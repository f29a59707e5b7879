"""How a broker knows its cluster: alone with its own store, or as a member of a cluster with a controller."""
