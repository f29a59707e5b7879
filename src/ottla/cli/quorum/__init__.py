"""Clusters without anything beside them: a first node that begins one, others that join it, and those that leave.

    ottla broker start --new-cluster        beginning.py    a controller that knows no others
    ottla broker start --join HOST:PORT     joining.py      asks the cluster, formats its directory
                                            after_joining.py  what is left to do when it serves
    ottla cluster members                   members.py
    ottla cluster remove | replace          leaving.py      decides what is to be done, departure.py does it

What a node was told when it began or joined is in its data directory (node_file.py), so the next start needs no more
than the directory.
"""
