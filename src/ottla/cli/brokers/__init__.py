"""`ottla broker start --brokers N`: N broker processes as one cluster on one machine.

    layout.py     where their data is, and what is refused
    quorum.py     which of them are controllers, and how these are reached
    plan.py       from the settings of all to those of each: ids, ports, directories; pure
    restarts.py   whether a process that ended is started again, and when; pure
    status.py     brokers.json in the data directory: who runs where; shown.py prints it
    start.py      from the command to a supervisor, with everything that can be refused before a process is there
    supervisor.py starts, watches, starts again, stops
    child.py      one process of the supervisor: its life and what it says when it serves
    member.py     what runs in a broker's process

The supervisor has no state that anybody needs: when it is killed, its processes notice and stop in order.
"""
