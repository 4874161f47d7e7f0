"""A preflight from beginning to end: log in, run what is planned, keep count."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from gpuwatch.errors import GpuwatchError
from gpuwatch.preflight.check import Check, Site
from gpuwatch.preflight.errand import Errand, ErrandError
from gpuwatch.preflight.result import Finding, Outcome, Result

__all__ = ["busy", "opened", "run"]


async def opened(errands: Sequence[Errand]) -> tuple[list[Errand], dict[str, str]]:
    """Log in on all nodes; return those that answer, and why the others do not."""
    told = await asyncio.gather(*(errand.open() for errand in errands), return_exceptions=True)
    unreached: dict[str, str] = {}
    for errand, outcome in zip(errands, told, strict=True):
        if isinstance(outcome, GpuwatchError):
            unreached[errand.node.name] = str(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
    return [errand for errand in errands if errand.node.name not in unreached], unreached


async def busy(errands: Sequence[Errand]) -> dict[str, int]:
    """Return the nodes with processes on their GPUs, and how many, as nvidia-smi counts them."""
    counts = {}
    for errand in errands:
        if await errand.lacks("nvidia-smi"):
            continue
        ran = await errand.run(
            ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], 15.0
        )
        pids = [line for line in ran.out.splitlines() if line.strip().isdigit()]
        if ran.ended_well and pids:
            counts[errand.node.name] = len(pids)
    return counts


async def run(site: Site, checks: Sequence[Check], unreached: dict[str, str]) -> Result:
    """Run the checks one after another; a node that is lost meanwhile is left out of what follows.

    Args:
        site: the nodes that were reached.
        checks: in order.
        unreached: node to why; those that are lost come beside them.
    """
    began = datetime.now(UTC)
    outcomes = []
    unreached = dict(unreached)
    for check in checks:
        if not site.errands:
            break
        started = time.monotonic()
        findings = await _findings(check, site)
        outcomes.append(
            Outcome(check=check.name, findings=tuple(findings), seconds=time.monotonic() - started)
        )
        unreached |= {
            e.node.name: f"lost during {check.name}: {e.error}" for e in site.errands if e.error
        }
        site.errands = [errand for errand in site.errands if errand.error is None]
    return Result(
        job=site.job.name, at=began.isoformat(timespec="seconds"), nodes=tuple(e.node.name for e in site.errands),
        unreached=unreached, outcomes=tuple(outcomes),
    )  # fmt: skip


async def _findings(check: Check, site: Site) -> list[Finding]:
    """Return what a check finds; one that fails says so, and the others go on."""
    try:
        return await check.run(site)
    except ErrandError as error:
        return [Finding(subject="job", judgement="not judged", text=error.what)]
