"""`gpuwatch doctor`: how far each node is reached, what can be read there, and what to do about it."""

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from typing import get_args

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.cli.asking import prepared
from gpuwatch.cli.jobs import job_of, nodes_of
from gpuwatch.cli.watch import SOME_UNREACHABLE, until_done
from gpuwatch.errors import UnreachableError
from gpuwatch.feed.live import Live
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Sample
from gpuwatch.model.text import sanitize
from gpuwatch.transport.bootstrap import BY_HAND
from gpuwatch.transport.link import LinkError, Step
from gpuwatch.transport.node import Node
from gpuwatch.transport.resolution import Resolver
from gpuwatch.transport.settings import Target
from gpuwatch.transport.transports import address

__all__ = ["Report", "doctor"]

PATIENCE_S = 40.0
"""A node that neither streams nor fails by then is told as it stands: two attempts take so long."""
LATE = f"no answer in {PATIENCE_S:.0f} s"
ATTEMPTS = 2
SAMPLES = 3
"""By then a heartbeat was answered, and every source had its turn."""
FAULT = 1
INTERRUPTED = 130
ELSEWHERE = "its files are on {}: it hangs when that does"
LOCAL = "set python: to one on a disk of the node"
STEPS: tuple[Step, ...] = get_args(Step)

HINTS = (
    ("nvml", "no libnvidia-ml.so.1", "if it has GPUs: env: {LD_LIBRARY_PATH: FOLDER} in the job file"),
    ("", "no process of the job", "once the job runs; else name its processes with match: in the job file"),
    ("", "hidepid", "log in as root, or as a member of the group that hidepid spares"),
    ("", "not permitted", "log in as the job's user, or as root"),
    ("wire", "", "its rc files must print nothing when there is no terminal"),
)  # fmt: skip
"""Source (empty: any), words of the reason, and what to do; the first that fits counts."""


class Reached(msgspec.Struct, frozen=True):
    """How far the way to a node goes: `step` is the last that was reached."""

    ok: bool
    error: str | None
    step: str
    hint: str | None
    seconds: float | None


class Signal(msgspec.Struct, frozen=True):
    """One source on one node; where only parts of it are missing it is ok, and the reason says which."""

    source: str
    ok: bool
    reason: str | None
    hint: str | None


class NodeReport(msgspec.Struct, frozen=True):
    """One node; what is null is not known. The clock is at most its error beside the offset."""

    node: str
    address: str
    link: Reached
    python: str | None
    clock_offset_s: float | None
    clock_error_s: float | None
    signals: tuple[Signal, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes, in the order of the job."""

    format: int = 1
    nodes: tuple[NodeReport, ...]

    def exit_code(self) -> int:
        """Return the exit code: no node reached before a fault, before some not reached."""
        reached = [node.link.ok for node in self.nodes]
        if not any(reached):
            return UnreachableError.exit_code
        if any(s.source == "wire" for node in self.nodes for s in node.signals):
            return FAULT
        return 0 if all(reached) else SOME_UNREACHABLE


def doctor(given: Namespace) -> int:
    """Look at each node of a job, tell as text or JSON."""
    job = job_of(given)
    nodes = nodes_of(job)
    report = asyncio.run(_examine(nodes, job.interval_s))
    if report is None:
        return INTERRUPTED
    document = msgspec.json.encode(report).decode() + "\n"
    sys.stdout.write(document if given.json else _text(report))
    return report.exit_code()


async def _examine(nodes: tuple[Node, ...], interval_s: float) -> Report | None:
    """Watch all nodes until each has streamed or failed; None: interrupted."""
    live = Live(nodes, interval_s, await prepared(nodes))
    patients = {node.name: _Patient(node) for node in nodes}

    async def look() -> None:
        async for event in live:
            patient = patients.get(getattr(event, "node", None) or "")
            if patient is not None:
                patient.take(event)
            if all(each.settled for each in patients.values()):
                return

    looking = asyncio.create_task(look())
    try:
        interrupted = await until_done(looking, asyncio.Event(), PATIENCE_S)
    finally:
        looking.cancel()
        await live.close()
    if looking.done() and not looking.cancelled():
        looking.result()
    if interrupted:
        return None
    resolver = Resolver()
    places = await asyncio.gather(*(_address(node, resolver) for node in nodes))
    reports = [each.report(place) for each, place in zip(patients.values(), places, strict=True)]
    return Report(nodes=tuple(reports))


async def _address(node: Node, resolver: Resolver) -> str:
    """Return where a node is looked for: over SSH as the ssh configuration has it, if it can be read."""
    if node.transport in {"asyncssh", "openssh"}:
        with suppress(LinkError):
            target = Target(node.host, node.port, node.user)
            settings = (await resolver.route(target, node.ssh))[-1]
            return f"{settings.user}@{settings.place}"
    return address(node)


class _Patient:
    """Takes one node's events."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._step: str = STEPS[0]
        self._link: Link | None = None
        self._hello: Hello | None = None
        self._sample: Sample | None = None
        self._samples = 0
        self._failures = 0
        self._faults: list[str] = []
        self._began_us: int | None = None
        self._seconds: float | None = None

    @property
    def settled(self) -> bool:
        """Whether it is known what there is to know."""
        refused = self._link is not None and self._link.state == "refused"
        return self._samples >= SAMPLES or refused or self._failures >= ATTEMPTS

    def take(self, event: AnyEvent) -> None:
        """Take one event of this node."""
        match event:
            case Link():
                self._take_link(event)
            case Hello():
                self._hello = event
            case Sample():
                self._sample = event
                self._samples += 1
            case Fault(source="wire", text=text):
                self._faults.append(text)

    def _take_link(self, link: Link) -> None:
        self._step = link.step
        if link.state == "connecting" and link.step == STEPS[0]:
            self._began_us = link.arrived_us
        elif link.state == "streaming" and self._began_us is not None:
            self._seconds = (link.arrived_us - self._began_us) / 1e6
        elif link.state in {"lost", "refused"}:
            self._link = link
            self._failures += 1

    def report(self, place: str) -> NodeReport:
        """Return what was found of the node at this place."""
        sample, hello, failed = self._sample, self._hello, self._link
        python = hello.facts.get("python") if hello is not None else None
        if sample is not None:
            link = Reached(ok=True, error=None, step="streaming", hint=None, seconds=self._seconds)
        elif failed is not None:
            link = Reached(
                ok=False,
                error=failed.reason,
                step=failed.step,
                hint=failed.hint or BY_HAND,
                seconds=None,
            )
        else:
            link = Reached(ok=False, error=LATE, step=self._step, hint=BY_HAND, seconds=None)
        return NodeReport(
            node=self._node.name,
            address=place,
            link=link,
            python=str(python) if python else None,
            clock_offset_s=_seconds(None if sample is None else sample.offset_us),
            clock_error_s=_seconds(None if sample is None else sample.offset_error_us),
            signals=tuple(self._signals()),
        )

    def _signals(self) -> Iterator[Signal]:
        if self._sample is None:
            return
        missing = {str(row.labels[0]): str(row.labels[1]) for row in self._sample.rows("absence")}
        for source in catalogue.SOURCES:
            whole = missing.get(source)
            parts = [
                f"{subject.partition('.')[2]}: {reason}"
                for subject, reason in missing.items()
                if subject.startswith(f"{source}.")
            ]
            reason = whole or "; ".join(parts) or None
            hint = _hint(source, reason)
            yield Signal(source=source, ok=whole is None, reason=reason, hint=hint)
        if self._hello is not None and (on := self._hello.facts.get("python_mount")):
            yield Signal(source="python", ok=True, reason=ELSEWHERE.format(on), hint=LOCAL)
        for fault in self._faults[-1:]:
            yield Signal(source="wire", ok=False, reason=fault, hint=_hint("wire", fault))


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1e6


def _hint(source: str, reason: str | None) -> str | None:
    if reason is None:
        return None
    return next((do for who, words, do in HINTS if who in {"", source} and words in reason), None)


def _text(report: Report) -> str:
    return "".join(f"{sanitize(line, 500)}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    width = max(len(node.node) for node in report.nodes)
    for node in report.nodes:
        yield f"{node.node:{width}}  {node.address}: {_way(node)}"
        for signal in node.signals:
            if signal.reason is not None:
                kind = "partly " if signal.ok else "no "
                yield f"{'':{width}}    {kind}{signal.source}: {signal.reason}{_to_do(signal.hint)}"
    reached = sum(node.link.ok for node in report.nodes)
    yield f"{reached} of {len(report.nodes)} nodes stream"


def _way(node: NodeReport) -> str:
    link = node.link
    if not link.ok:
        return f"got as far as {link.step!r}: {link.error}{_to_do(link.hint)}"
    seconds = "" if link.seconds is None else f" after {link.seconds:.2f} s"
    offset, error = node.clock_offset_s, node.clock_error_s
    clock = (
        "" if offset is None else f", clock {offset:+.3f} s from here, give or take {error:.3f} s"
    )
    return f"streams{seconds}, python {node.python}{clock}"


def _to_do(hint: str | None) -> str:
    return f" -> {hint}" if hint else ""
