"""Errors that a person reads: what, where, and what to do, in one line."""

__all__ = ["GpuwatchError", "InputError", "RecordingError", "UnreachableError"]


class GpuwatchError(Exception):
    """A failure that is told in one line on stderr.

    Args:
        what: what is wrong, naming where (`job.yaml:7: ...`, `gpu003: ...`).
        hint: the one thing to do about it; may be empty.
    """

    exit_code = 1

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}" if self.hint else self.what


class InputError(GpuwatchError):
    """Wrong usage, or a file that cannot be understood."""

    exit_code = 2


class UnreachableError(GpuwatchError):
    """No node could be reached."""

    exit_code = 3


class RecordingError(InputError):
    """A recording that cannot be opened."""
