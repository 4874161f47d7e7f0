"""Help: the keys, the letters, the words."""

from collections.abc import Sequence

from gpuwatch.agent.waits import FAMILIES
from gpuwatch.model.verdict import CAUSES, LETTERS
from gpuwatch.tui.commands import Command
from gpuwatch.tui.paint.spans import Line, Span, columns, fit
from gpuwatch.tui.paint.words import GPU_LETTERS, GPU_ROLES, WAITS

__all__ = ["guide"]

MEANING = {
    "COMPUTE": "the GPUs work",
    "NETWORK": "bytes between nodes come late",
    "STORAGE": "reads or writes come late",
    "CPU": "the host cannot prepare work in time",
    "MEMORY": "the host runs short of memory",
    "PEER": "waits for another node or rank, which is to blame",
    "GPU": "the GPU itself is slowed, faulty or shared",
    "HOST-LINK": "PCIe or NVLink inside the node",
    "HUNG": "nothing moves any more",
    "IDLE": "no work is asked for",
    "STARTUP": "the job starts: loads, compiles",
    "UNKNOWN": "the evidence does not say",
}


def guide(commands: Sequence[Command], cells: int) -> list[Line]:
    """Return the help page; the keys stand beside the letters where there is room."""
    keys = [_title("keys"), *(_entry(c.shown, "key", 6, c.help) for c in commands)]
    letters = _letters()
    if cells < 110:
        return [*keys, (), *letters]
    half = cells // 2 - 1
    rows = max(len(keys), len(letters))
    blank: list[Line] = [()]
    keys += blank * (rows - len(keys))
    letters += blank * (rows - len(letters))
    return [
        columns(((k, half), (w, cells - half - 2)), 2) for k, w in zip(keys, letters, strict=True)
    ]


def _letters() -> list[Line]:
    lines = [_title("verdicts: what GPUs wait for")]
    for state, letter in LETTERS.items():
        named: Span = (f"  {letter} {fit(state, 10)}", state.lower())
        lines.append((named, (MEANING[state], "text")))
        if CAUSES[state]:
            lines.append(((" " * 14, "text"), (", ".join(CAUSES[state]), "dim")))
    lines += [(), _title("GPU row: one letter a GPU")]
    letters = [
        ((f"  {c} ", GPU_ROLES[c]), (fit(word, 11), "dim")) for c, word in GPU_LETTERS.items()
    ]
    lines += [
        tuple(s for pair in letters[i : i + 3] for s in pair) for i in range(0, len(letters), 3)
    ]
    lines += [(), _title("what threads wait in")]
    lines += [_entry(WAITS[f], "text", 14, meaning) for f, meaning in FAMILIES.items()]
    lines += [
        (),
        _title("numbers"),
        _entry("·", "gap", 6, "nothing was seen here: a gap, not a zero"),
        _entry("n/a", "old", 6, "could not be read; the node's page says why"),
        _entry("grey", "old", 6, "old; its age is on the pane's lower border"),
    ]
    return lines


def _title(text: str) -> Line:
    return ((f" {text}", "title"),)


def _entry(key: str, role: str, room: int, text: str) -> Line:
    return ((f"  {fit(key, room)}", role), (f" {text}", "dim"))
