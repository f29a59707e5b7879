"""Clusters without anything beside them: a first node that begins one, others that join it, and those that leave.

    ottla broker start --new-cluster        beginning.py    a controller that knows no others
    ottla broker start --join HOST:PORT     joining.py      asks the cluster, formats its directory
                                            after_joining.py does what is left to do when it serves
    --secure                                secured_node.py says what locks a node, tickets.py what lets a new one in,
                                            certificates.py asks as that node, signing.py answers as the first one
    ottla cluster invite                    inviting.py     a line for another machine; invitations.py keeps open ones
    ottla cluster members                   members.py
    ottla cluster remove | replace          leaving.py      decides what is to be done, departure.py does it

What a node was told when it began or joined is in its data directory (node_file.py), so the next start needs no more
than the directory.
"""
