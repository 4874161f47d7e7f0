"""Runs the lab: real kernels, real faults, a known truth, and a score.

    python tests/lab/run.py                     # every fault, about 45 minutes
    python tests/lab/run.py net-loss            # one
    python tests/lab/run.py --set healthy       # 20 minutes healthy, 20 healthy but odd

One JSON file a scenario, and its recording, come to lie in --out. A set goes on where it was left:
what has its file there is not run again, unless it is named. Exit status 1: a scenario could not be run; with --strict also: it could, twice,
and both times no second of its fault was judged right in kind (the state, whatever the cause) for the job. Ended by a
signal, it takes all down that it brought up, and goes on there when it is run again.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab import table
from lab.node import USER
from lab.scenario import Scenario
from lab.scenarios import FAULTS, HEALTHY, SCENARIOS, SHORT
from lab.watch import Result, Way, watch

SETS = {
    "faults": [scenario.name for scenario in FAULTS],
    "healthy": [scenario.name for scenario in HEALTHY],
    "short": list(SHORT),
}
NEEDED = {
    "ip": "iproute2", "sshd": "openssh-server", "cc": "gcc", "linux.uml": "user-mode-linux",
    "mkfs.ext4": "e2fsprogs", "dmsetup": "dmsetup", "rpc.nfsd": "nfs-kernel-server",
}  # fmt: skip
"""Programs, and the Debian packages that have them."""


def missing() -> list[str]:
    """Return what the lab needs and this machine lacks."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    absent = [] if os.geteuid() == 0 else ["root"]
    return absent + [p for program, p in NEEDED.items() if not shutil.which(program, path=path)]


def wrong_in_kind(result: Result) -> bool:
    """Tell whether the job was judged during the fault, and never as anything of the right kind."""
    accept = SCENARIOS[result.scenario].accepts("job")
    right = {word.partition("/")[0] for word in accept.words}
    shown = {word.partition("/")[0] for word in result.score.job.words}
    return bool(shown) and not shown & right


def run_strictly(scenario: Scenario, out: Path, way: Way) -> Result | None:
    """Run a scenario, and once more where it was judged wrong in kind: machines are slow at times."""
    result = run(scenario, out, way, anew=True)
    if result is None or not wrong_in_kind(result):
        return result
    print(f"{table.scores([result])}\n{scenario.name}: wrong in kind, so once more", flush=True)
    return run(scenario, out, way, anew=True)


def run(scenario: Scenario, out: Path, way: Way, *, anew: bool) -> Result | None:
    """Run a scenario, or read what an earlier run wrote; None where it cannot be run."""
    file = out / f"{scenario.name}.json"
    if file.exists() and not anew:
        result = msgspec.json.decode(file.read_bytes(), type=Result)
        print(f"{scenario.name}: run before, see {file}", flush=True)
        return result
    print(f"{scenario.name}:", flush=True)
    began = time.monotonic()
    kept = out / scenario.name
    shutil.rmtree(kept, ignore_errors=True)
    try:
        result = watch(scenario, kept, way)
    except (RuntimeError, OSError) as error:
        print(f"  cannot be run: {error}", flush=True)
        return None
    part = file.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    part.replace(file)
    print(table.bites(result), f"\n  {time.monotonic() - began:.0f} s in all", flush=True)
    return result


def main(given: Sequence[str] | None = None) -> int:
    """Run what the command line names, and print the score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", nargs="*", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--set", choices=SETS, default="faults", help="when none is named")
    parser.add_argument("--out", type=Path, default=Path("build/lab"))
    parser.add_argument("--late", action="store_true", help="watch from 60 s after onset only")
    parser.add_argument("--user", action="store_true", help="train and watch as a plain user")
    parser.add_argument("--strict", action="store_true", help="see above")
    args = parser.parse_args(given)
    if absent := missing():
        print(f"the lab needs {', '.join(absent)}: run `make lab-setup` as root", file=sys.stderr)
        return 2
    names = args.scenario or SETS[args.set]
    if unknown := [name for name in names if name not in SCENARIOS]:
        parser.error(f"no scenario {unknown[0]!r}")
    args.out.mkdir(parents=True, exist_ok=True)
    anew = bool(args.scenario)
    way = Way(late=args.late, user=USER if args.user else "root")
    chosen = [SCENARIOS[name] for name in names]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    if args.strict:
        results = [run_strictly(scenario, args.out, way) for scenario in chosen]
    else:
        results = [run(scenario, args.out, way, anew=anew) for scenario in chosen]
    done = [result for result in results if result is not None]
    if done:
        print(f"\n{table.whole(done)}")
    wrong = [result.scenario for result in done if args.strict and wrong_in_kind(result)]
    for name in wrong:
        print(f"{name}: no second of its fault was judged right in kind")
    return int(len(done) < len(results) or bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
