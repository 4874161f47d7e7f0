"""One file a cause, each with `NAME` and `assess`. A new cause is one file and one line here.

The order breaks ties: local, specific causes come before the symptoms that they make elsewhere.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

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
from gpuwatch.verdict.evidence import (
    Assessment,
    Context,
    asleep,
    computes,
    lacks_input,
    starting,
    starves,
    waits,
)

__all__ = ["CAUSES", "Cause", "asked"]

Opening = Callable[[Context], object]


class Cause(NamedTuple):
    """What may be said of a rank, and when it is worth to be asked.

    `assess` has nothing to say where what `opens` it returns is false. Most are closed most of the
    time, and several have one opening.
    """

    opens: Opening
    assess: Callable[[Context], Assessment]


def _always(_: Context) -> bool:
    return True


CAUSES: tuple[Cause, ...] = (
    Cause(_always, fault.assess),
    Cause(_always, throttled.assess),
    Cause(_always, power_limit.assess),
    Cause(computes, shared.assess),
    Cause(waits, nvlink.assess),
    Cause(_always, pcie.assess),
    Cause(lacks_input, offload.assess),
    Cause(lacks_input, checkpoint.assess),
    Cause(lacks_input, memory.assess),
    Cause(lacks_input, metadata.assess),
    Cause(lacks_input, read.assess),
    Cause(lacks_input, object_store.assess),
    Cause(starves, numa.assess),
    Cause(lacks_input, data_prep.assess),
    Cause(starves, in_rank.assess),
    Cause(starves, main_thread.assess),
    Cause(lacks_input, pinned.assess),
    Cause(system.delayed, quota.assess),
    Cause(system.delayed, system.assess),
    Cause(waits, fallback.assess),
    Cause(waits, softirq.assess),
    Cause(waits, link.assess),
    Cause(waits, pauses.assess),
    Cause(waits, rdma.assess),
    Cause(_always, loss.assess),
    Cause(waits, connection_loss.assess),
    Cause(waits, path.assess),
    Cause(_always, trip.assess),
    Cause(waits, bandwidth.assess),
    Cause(peer.opening, peer.assess),
    Cause(_always, hung.assess),
    Cause(starting, startup.assess),
    Cause(computes, compute.assess),
    Cause(asleep, idle.assess),
)

_OPENINGS = tuple({cause.opens: None for cause in CAUSES})


def asked(context: Context) -> tuple[Cause, ...]:
    """Return the causes that may have something to say of a rank."""
    return _behind(frozenset([opens for opens in _OPENINGS if opens(context)]))


@cache
def _behind(opened: frozenset[Opening]) -> tuple[Cause, ...]:
    return tuple(cause for cause in CAUSES if cause.opens in opened)
