"""What a mount's server is asked for beside data."""

import msgspec

from gpuwatch.model.view import Window

__all__ = ["Metadata", "metadata"]


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """The mount whose requests for metadata take most time.

    `share` is what these are of the time of all its requests, `under_way` how many of them there
    are at a time, `each_ms` how long one takes.
    """

    source: str
    ops_s: float
    reads_s: float | None
    share: float
    under_way: float
    each_ms: float


def metadata(window: Window) -> Metadata | None:
    """Return it; None where no mount counts requests, or none was made."""
    times = {labels: spent for labels, spent in window.growths("mount", "meta_exe_ms") if spent > 0}
    if not times:
        return None
    labels = max(times, key=lambda each: (times[each], str(each)))
    done = window.rate("mount", labels, "meta_ops")
    data = [window.growth("mount", labels, f"{kind}_exe_ms") for kind in ("read", "write")]
    if not done or data[0] is None:
        return None
    spent_s = times[labels] / 1e3
    data_s = sum(ms for ms in data if ms is not None) / 1e3
    return Metadata(
        source=str(labels[2]),
        ops_s=done,
        reads_s=window.rate("mount", labels, "read_ops"),
        share=spent_s / (spent_s + data_s),
        under_way=spent_s / window.seconds,
        each_ms=spent_s * 1e3 / (done * window.seconds),
    )
