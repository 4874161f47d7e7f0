"""Makes the recordings that come along: for the demo, the golden verdicts and the pictures.

    python tests/lab/keep.py recordings net-loss nfs-slow

Scenarios of the lab, with more time before and after the fault, so that a verdict is seen to come,
to be confirmed and to go. Each recording NAME gets NAME.json beside it, what was true and how it
was judged then, as `run.py` writes it: `rescore.py` reads both kinds of folder.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab import run, table
from lab.scenario import Scenario
from lab.scenarios import SCENARIOS
from lab.watch import Way

HEALTHY_S = 30
FAULT_S = 70
AFTER_S = 25


def keep(scenario: Scenario, out: Path) -> bool:
    """Run a scenario and leave its recording and truth in a folder; False where it cannot be run."""
    longer = replace(scenario, healthy_s=HEALTHY_S, fault_s=FAULT_S, after_s=AFTER_S)
    result = run.run(longer, out, Way(), anew=True)
    if result is None:
        return False
    for truth in out.glob(f"{scenario.name}.truth.*.jsonl"):
        truth.unlink()
    (out / scenario.name / ".lock").unlink(missing_ok=True)
    print(table.scores([result]), flush=True)
    return True


def main() -> int:
    """Keep the scenarios that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("scenario", nargs="+", choices=SCENARIOS)
    given = parser.parse_args()
    if absent := run.missing():
        print(f"the lab needs {', '.join(absent)}: run `make lab-setup` as root", file=sys.stderr)
        return 2
    kept = [keep(SCENARIOS[name], given.out) for name in given.scenario]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main())
