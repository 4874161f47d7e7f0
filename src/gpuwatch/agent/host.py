"""The only door to files and commands of a node, with an injectable root."""


class Host(object):
    """A node's files below one root."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
