"""One file a cause, each with `NAME` and `assess`. A new cause is one file and one word here.

The order breaks ties: local, specific causes come before the symptoms that they make elsewhere.
"""

from collections.abc import Callable

from gpuwatch.verdict.causes import (
    bandwidth,
    checkpoint,
    compute,
    data_prep,
    fallback,
    fault,
    hung,
    idle,
    link,
    loss,
    main_thread,
    memory,
    object_store,
    path,
    peer,
    pinned,
    quota,
    rdma,
    read,
    softirq,
    startup,
    system,
    throttled,
    trip,
)
from gpuwatch.verdict.evidence import Assessment, Context

__all__ = ["CAUSES"]

CAUSES: tuple[Callable[[Context], Assessment], ...] = tuple(
    cause.assess
    for cause in (
        fault, throttled, checkpoint, memory, read, object_store, data_prep, main_thread, pinned, quota, system, fallback, softirq, link, rdma, loss, path, trip,
        bandwidth, peer, hung, startup, compute, idle,
    )
)  # fmt: skip
