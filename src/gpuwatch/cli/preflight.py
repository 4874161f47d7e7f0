"""`gpuwatch preflight`: the checks before a job. Asks before it makes load."""

import asyncio
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpuwatch.cli.asking import prepared
from gpuwatch.cli.jobs import job_of, nodes_of
from gpuwatch.cli.watch import SOME_UNREACHABLE, folder_of, until_done
from gpuwatch.errors import InputError, UnreachableError
from gpuwatch.job.types import Job
from gpuwatch.job.units import BYTES, GRADIENTS, PARAMETERS, number, scaled
from gpuwatch.model.text import sanitize
from gpuwatch.preflight.check import Check, Options, Site
from gpuwatch.preflight.checks import CHECKS
from gpuwatch.preflight.errand import Errand
from gpuwatch.preflight.kept import changes, keep, latest
from gpuwatch.preflight.result import Result
from gpuwatch.preflight.run import busy, opened, run
from gpuwatch.preflight.text import text

__all__ = ["preflight"]

FAULT = 1
INTERRUPTED = 130
LONG_S = 20 * 60.0


def preflight(given: Namespace) -> int:
    """Check a job's nodes; tell what was found as text or JSON, and keep it."""
    job = job_of(given)
    checks, options = _chosen(given), _options(given)
    result = asyncio.run(_checked(job, checks, options, given))
    if result is None:
        return INTERRUPTED
    folder = folder_of(job).parent / "preflight"
    before = latest(folder)
    document = msgspec.json.encode(result).decode() + "\n"
    sys.stdout.write(document if given.json else text(result))
    for line in changes(before, result) if before is not None else ():
        print(sanitize(line, 500), file=sys.stderr)
    _keep(result, folder)
    return _exit_code(result)


def _keep(result: Result, folder: Path) -> None:
    try:
        print(f"kept in {keep(result, folder)}", file=sys.stderr)
    except OSError as error:
        print(f"gpuwatch: not kept: {folder}: {error.strerror}", file=sys.stderr)


def _exit_code(result: Result) -> int:
    if not result.nodes:
        return UnreachableError.exit_code
    if result.faults():
        return FAULT
    return SOME_UNREACHABLE if result.unreached else 0


def _chosen(given: Namespace) -> list[Check]:
    """Return the checks to run.

    Raises:
        InputError: one that there is none of.
    """
    names = [check.name for check in CHECKS]
    wanted = given.only.split(",") if given.only else names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise InputError(f"--only: no check {unknown[0]!r}", f"one of: {', '.join(names)}")
    return [check for check in CHECKS if check.name in wanted]


def _options(given: Namespace) -> Options:
    """Return what was asked for, in base units.

    Raises:
        InputError: what is no number, or has no unit that it needs.
    """
    size = given.checkpoint_size
    return Options(
        quick=given.quick,
        gpus=int(number(given.gpus)) if given.gpus else None,
        checkpoint_bytes=scaled(size, BYTES) if size else None,
        parameters=scaled(given.params, PARAMETERS) if given.params else None,
        bytes_a_value=GRADIENTS[given.dtype],
        step_s=number(given.step_seconds) if given.step_seconds else None,
    )


async def _checked(
    job: Job, checks: Sequence[Check], options: Options, given: Namespace
) -> Result | None:
    """Log in, ask, run; whatever ends it, nothing is left on the nodes. None: interrupted."""
    nodes = nodes_of(job)
    transports = await prepared(nodes)
    errands = [Errand(node, transports) for node in nodes]
    try:
        going = asyncio.create_task(_through(job, errands, checks, options, given))
        interrupted = await until_done(going, asyncio.Event(), None)
        going.cancel()
        await asyncio.wait({going})
        return None if interrupted else going.result()
    finally:
        await asyncio.gather(*(errand.close() for errand in errands), return_exceptions=True)
        await transports.close()


async def _through(
    job: Job, errands: Sequence[Errand], checks: Sequence[Check], options: Options, given: Namespace
) -> Result:
    there, unreached = await opened(errands)
    site = Site(job, there, options, _progress)
    if there and any(check.load for check in checks):
        await _permitted(site, checks, given)
    return await run(site, checks, unreached)


async def _permitted(site: Site, checks: Sequence[Check], given: Namespace) -> None:
    """Make sure that load may be made on these nodes.

    Raises:
        InputError: a job runs there, it takes long, or the person does not want it.
    """
    if not given.busy_ok and (there := await busy(site.errands)):
        who = ", ".join(f"{name} ({count})" for name, count in list(there.items())[:5])
        raise InputError(
            f"processes run on GPUs of {who}",
            "--busy-ok loads them all the same; --only links,host,round-trip loads nothing",
        )
    seconds = sum(check.seconds(site) for check in checks if check.seconds)
    if seconds > LONG_S and not given.thorough:
        raise InputError(
            f"these checks may take {seconds / 60:.0f} minutes",
            "--thorough runs them, --quick makes them shorter, --only NAME,.. runs fewer",
        )
    loads = [
        f"  {check.name}: {said}" for check in checks if check.load and (said := check.load(site))
    ]
    if not loads or given.yes:
        return
    about = f"This makes load on {len(site.errands)} nodes, for up to {max(1, round(seconds / 60))} min:"
    print("\n".join([about, *loads]), file=sys.stderr)
    if not sys.stdin.isatty():
        raise InputError(
            "nobody is there to be asked",
            "--yes goes on; --only links,host,round-trip makes no load",
        )
    sys.stderr.write("Go on? [y/N] ")
    sys.stderr.flush()
    answer = await _answer()
    if answer.strip().lower() not in {"y", "yes"}:
        raise InputError("nothing was run", "--only links,host,round-trip makes no load")


async def _answer() -> str:
    """Return the line that the person enters; an interrupt does not wait for it."""
    entered, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(sys.stdin, entered.set)
    try:
        await entered.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline()


def _progress(line: str) -> None:
    """Tell what goes on, on a terminal in one line that is written over."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line[:100]}")
        sys.stderr.flush()
