"""One file a cause, each with `NAME` and `assess`. A new cause is one file and one word here.

The order breaks ties: local, specific causes come before the symptoms that they make elsewhere.
"""

from collections.abc import Callable

from gpuwatch.verdict.causes import (
    bandwidth,
    checkpoint,
    compute,
    connection_loss,
    data_prep,
    fallback,
    fault,
    hung,
    idle,
    in_rank,
    link,
    loss,
    main_thread,
    memory,
    metadata,
    numa,
    nvlink,
    object_store,
    offload,
    path,
    pauses,
    pcie,
    peer,
    pinned,
    power_limit,
    quota,
    rdma,
    read,
    shared,
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
        fault, throttled, power_limit, shared, nvlink, pcie, offload, checkpoint, memory, metadata, read, object_store,
        numa, data_prep, in_rank, main_thread, pinned, quota, system, fallback, softirq, link, pauses, rdma, loss, connection_loss, path, trip,
        bandwidth, peer, hung, startup, compute, idle,
    )
)  # fmt: skip
