"""Delegation tokens for jobs: passwords stay on the driver, tasks log in with tokens.

clusters.py   spark.kafka.clusters.*: at which clusters tokens are asked for, and how
keeping.py    when a token is asked for, renewed, replaced; pure
keeper.py     does it, on a thread of the driver's own Python process
handout.py    how tokens get from there to the queries of the driver, and with them to the tasks
"""
