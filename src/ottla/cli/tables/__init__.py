"""What `ottla table` does: common.py what all verbs want, running.py the worker, looking.py the verbs for people."""
