"""What a check is: declared once, for the run, the question before it, the help and the docs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from gpuwatch.job.types import Job
from gpuwatch.preflight.errand import Errand
from gpuwatch.preflight.result import Finding

__all__ = ["INSTALL", "Check", "Limit", "Options", "Site", "not_judged", "without"]

GPUS = "/proc/driver/nvidia/gpus/*/information"
"""One for each GPU that the driver has."""
INSTALL = {
    "ethtool": "ethtool", "fio": "fio", "iperf3": "iperf3", "ping": "iputils-ping", "ib_write_bw": "perftest",
}  # fmt: skip
"""Tool to Debian package; other distributions call them alike."""


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line.

    Attributes:
        quick: shorter tests, of less data.
        gpus: of the whole job; None: those that the nodes have.
        checkpoint_bytes: of one checkpoint of the whole job; None: not told.
        parameters: of the model; None: not told.
        bytes_a_value: of a gradient.
        step_s: seconds of a step's computation; None: not known.
    """

    quick: bool = False
    gpus: int | None = None
    checkpoint_bytes: float | None = None
    parameters: float | None = None
    bytes_a_value: int = 2
    step_s: float | None = None


@dataclass
class Site:
    """The nodes that were reached, and what is asked of them.

    Attributes:
        job: the job file.
        errands: in the order of the job.
        options: of this run.
        measured: what earlier checks of this run found, by name: `bandwidth_bytes_s` between nodes.
        progress: told what goes on, a line at a time.
    """

    job: Job
    errands: Sequence[Errand]
    options: Options
    progress: Callable[[str], None]
    measured: dict[str, float] = field(default_factory=dict)

    async def gpus_of(self, errand: Errand) -> int:
        """Return how many GPUs a node has to feed: its share of those that were told, else its own."""
        if self.options.gpus is not None:
            return -(-self.options.gpus // max(1, len(self.job.nodes)))
        return len(await errand.texts(GPUS))


@dataclass(frozen=True)
class Limit:
    """A figure that is judged by, and from where it is."""

    name: str
    value: float
    unit: str
    meaning: str
    source: str


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: for `--only` and in results.
        does: what it runs, in a sentence.
        judges: what makes a fault, in a sentence.
        limits: figures that it judges by.
        run: does it.
        seconds: how long it takes at most, estimated; None: a few seconds.
        load: what it loads and writes, in words; empty: it only reads.
    """

    name: str
    does: str
    judges: str
    run: Callable[[Site], Awaitable[list[Finding]]]
    limits: tuple[Limit, ...] = ()
    seconds: Callable[[Site], float] | None = None
    load: Callable[[Site], str] | None = None


def not_judged(subject: str, why: str, hint: str = "") -> Finding:
    """Return that something could not be judged, and why."""
    return Finding(subject=subject, judgement="not judged", text=why, hint=hint)


async def without(errand: Errand, *tools: str) -> Finding | None:
    """Return that a node lacks a tool, with the command that installs it; None: it has all."""
    lacking = await errand.lacks(*tools)
    if not lacking:
        return None
    packages = " ".join(sorted({INSTALL.get(tool, tool) for tool in lacking}))
    return not_judged(
        errand.node.name, f"no {', '.join(lacking)} there", f"apt-get install {packages}"
    )
