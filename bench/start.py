"""How soon `--help` and the first screen appear, beside a bare `import textual.app`.

Each figure is the least of several starts, taken in turns: other load only ever adds to it. With
bytecode as after a first start, and without, as in a fresh container.
"""

import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
HELP_BUDGET_S = 0.25
PAINT_BUDGET_S = 0.4
PATIENCE_S = 30.0
# Textual switches to the alternate screen before it paints; the first lines of text come after.
SCREEN_ON = b"\x1b[?1049h"
PAINTED = b"waits for the first samples"

Environment = dict[str, str]


def main() -> int:
    """Print the table; return 1 where a budget is passed."""
    over = False
    print(
        f"{'':18}{'import textual':>16}{'--help':>10}{'first paint':>14}{'paint - import':>16}{'ratio':>8}"
    )
    for name, starts, warm in (("with bytecode", 5, True), ("without", 3, False)):
        bare, shown, painted = map(min, measure(starts, warm=warm))
        extra = painted - bare
        late = shown > HELP_BUDGET_S or extra > PAINT_BUDGET_S
        over |= late and warm
        row = f"{name:18}{bare:14.2f} s{shown:8.2f} s{painted:12.2f} s{extra:14.2f} s{painted / bare:8.2f}"
        print(f"{row}  {'OVER BUDGET' if late and warm else ''}".rstrip())
    print(f"budget: --help {HELP_BUDGET_S} s, paint - import {PAINT_BUDGET_S} s, with bytecode")
    return int(over)


def measure(starts: int, *, warm: bool) -> tuple[list[float], list[float], list[float]]:
    """Return the times of the bare import, of --help and of the first paint."""
    runs: tuple[Callable[[Environment], float], ...] = (bare_import, help_shown, first_paint)
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONPYCACHEPREFIX": cache,
            "TERM": "xterm-256color",
        }
        if warm:
            for run in runs:
                run(environment)
        else:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        for _ in range(starts):
            for run, taken in zip(runs, times, strict=True):
                taken.append(run(environment))
    return times


def bare_import(environment: Environment) -> float:
    """Return the seconds of a process that imports Textual and ends."""
    return timed([sys.executable, "-c", "import textual.app"], environment)


def help_shown(environment: Environment) -> float:
    """Return the seconds of `gpuwatch --help`."""
    return timed([sys.executable, "-m", "gpuwatch", "--help"], environment)


def timed(command: list[str], environment: Environment) -> float:
    """Return the seconds that a command takes."""
    begin = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def first_paint(environment: Environment) -> float:
    """Return the seconds until `gpuwatch` has painted its first words in a terminal of its own."""
    viewer, terminal = pty.openpty()
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuwatch", "--no-record"],
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        wait_for(viewer, begin + PATIENCE_S)
        return time.perf_counter() - begin
    finally:
        process.terminate()
        drain(viewer)
        process.wait(PATIENCE_S)
        os.close(viewer)


def wait_for(viewer: int, deadline: float) -> None:
    """Read a terminal until the screen is on and painted."""
    seen = b""
    while time.perf_counter() < deadline:
        if select.select([viewer], [], [], 0.1)[0]:
            seen += os.read(viewer, 65536)
            _, on, after = seen.partition(SCREEN_ON)
            if on and PAINTED in after:
                return
    raise TimeoutError(f"no first paint; the terminal got {seen[-2000:]!r}")


def drain(viewer: int) -> None:
    """Read what a closing screen still writes, so that it never waits for us."""
    while select.select([viewer], [], [], 1.0)[0]:
        try:
            if not os.read(viewer, 65536):
                return
        except OSError:
            return


if __name__ == "__main__":
    sys.exit(main())
