"""A connection to a node, from either side.

What a connection promises:
1. Order. Frames come out in the order they went in, answers in the order of their requests; whatever breaks that
   order ends the connection, because after it nothing can be matched any more.
2. One end per request: an answer, or one error that says whether the request may have taken effect (ConnectionClosed,
   RequestTimedOut) or was never sent (NotConnected). Nothing is sent twice behind the caller's back.
3. Limits. The size of a frame, requests in flight and waiting, bytes waiting to be written, the time for set-up, for an
   answer, for closing, and for doing nothing: each has a limit, and each file says what happens at it.

How to read it, from the bytes up:

    framing.py      bytes to frames; a lie about a size costs nothing
    connection.py   frames to answers, both sides: correlation ids, versions, order
    handshake.py    what is said before the first request: versions, then who we are
    waiting.py      requests that wait for their turn
    peer.py         one remote node as a state machine; its decisions are the values of decisions.py
    transport.py    sockets and TLS on asyncio or uvloop; its twin in memory is ottla.testing.network
    node.py         runs a peer over a transport: `await node.send(request)`

Everything above transport.py decides and touches neither socket nor clock nor chance: time is an argument, jitter
comes from a random source that is handed in. transport.py and node.py act.
"""
