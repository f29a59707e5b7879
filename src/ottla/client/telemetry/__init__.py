"""A client's own numbers, pushed to brokers that ask for them (KIP-714).

push.py begins and ends it, machine.py decides when to ask and to push, numbers.py says what, pushing.py does it. Only
push.py is loaded with a client; the rest when it has lived long enough to be asked.
"""
