"""How long the parts of a recording are, and how much of it is kept."""

import msgspec

__all__ = ["USUAL", "Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a log is sealed, what is merged and kept, and how much may wait.

    Attributes:
        seal_us: of events in a log; it ends at the first tick after.
        seal_bytes: of a log; it ends at the first tick after, and at twice as much anyhow. As tables it
            takes seven times as much memory while it is sealed.
        queue: records that wait for the disk; by default half a minute of 128 nodes.
        merge_us: how long merged segments are, one after the other. Ten minutes, as a minute's files
            are half made of their footers; an hour; and four, as three weeks are to have fewer than
            5,000 files.
        max_bytes: of all segments; None: any.
        keep_us: how old readings may become, where nothing was confirmed; None: any age.
    """

    seal_us: int = 60_000_000
    seal_bytes: int = 16 << 20
    queue: int = 4096
    merge_us: tuple[int, ...] = (600_000_000, 3_600_000_000, 14_400_000_000)
    max_bytes: float | None = None
    keep_us: float | None = None


USUAL = Limits()
