"""Which of the names that a driver uses for a counter are there.

Drivers count the same thing under different names, or in parts. A locator lists the names:
alternatives, best first, separated by ` | `; parts of a sum by ` + `; `#` stands for a number
(`rx_prio#_pause`: all priorities together).
"""

import re
from typing import Collection, List, Sequence


def pick(locator: str, names: Collection[str]) -> List[str]:
    """Return the names of the first alternative that has any: their sum is the counter.

    Args:
        locator: as the module describes it.
        names: that the driver has.

    Returns:
        Names in their order; none where no alternative is there.
    """
    for alternative in locator.split(" | "):
        found: List[str] = []
        for part in alternative.split(" + "):
            if "#" in part:
                pattern = re.compile(r"\d{1,4}".join(map(re.escape, part.split("#"))) + r"\Z")
                found.extend(name for name in names if pattern.match(name))
            elif part in names:
                found.append(part)
        if found:
            return found
    return []


def told(names: Sequence[str], total: int) -> str:
    """Name those whom something concerns, or say that it concerns all."""
    if len(names) == total and total > 1:
        return "all"
    shown = ", ".join(names[:8])
    return shown + " and %d more" % (len(names) - 8) if len(names) > 8 else shown
