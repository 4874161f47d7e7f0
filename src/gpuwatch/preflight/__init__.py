"""The checks before a job: what an expert would run by hand on each node, and what to think of it.

One file a check in `checks/`: what it runs, what it needs, which limits it judges by and from where
they are. `errand.py` asks a node, `rounds.py` says who talks to whom when, `run.py` runs what is planned.
"""
