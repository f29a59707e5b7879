"""A stopped cluster is taken from ZooKeeper over to the metadata log.

    found.py         everything that is in ZooKeeper, read without writing anything; refused while anybody is there
    content.py       nodes to the image that the metadata log begins with, and what has no place there, by name; pure
    beginning.py     the image to the snapshot that the log begins with: the same bytes from every machine
    directories.py   whose the directories of a machine are, from then on; and back, until somebody has started

The first voters have the snapshot, everybody else gets it from them. ZooKeeper stays as it is.
"""
