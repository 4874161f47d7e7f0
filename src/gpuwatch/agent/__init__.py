"""All that runs on a node: standard library only, Python 3.6 syntax, no import from outside."""
