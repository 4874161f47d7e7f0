"""Errands on a node: what the checks before a job run there, and nothing else. No dependency, CPython 3.6.

Sent over the same way as the agent, and as much a guest: it runs what it is asked for as the user who
logged in, each with a time of its own, and when it ends, however it ends, all that it started ends and
all that it wrote is removed (watcher.py).
"""
