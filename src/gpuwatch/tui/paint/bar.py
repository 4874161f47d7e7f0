"""The lines that belong to the screen itself: transport bar, footer, mode, too small."""

from collections.abc import Sequence

from gpuwatch.tui.commands import Command
from gpuwatch.tui.paint.numbers import clock, duration
from gpuwatch.tui.paint.spans import Line, clip, pad, width
from gpuwatch.tui.scene import Scene

__all__ = ["footer", "pointed_at", "too_small", "transport"]


def footer(commands: Sequence[Command], cells: int) -> Line:
    """Return the keys that the footer shows: those that always stand there are its end."""
    spans = [span for command in _shown(commands, cells) for span in _entry(command)]
    return pad(((" ", "text"), *spans), cells)


def _shown(commands: Sequence[Command], cells: int) -> list[Command]:
    """Return the commands that the footer has room for, in its order."""
    last = [c for c in commands if c.foot == "always"]
    room = cells - 1 - sum(width(_entry(c)) for c in last)
    first: list[Command] = []
    for command in (c for c in commands if c.foot == "room"):
        needed = width(_entry(command))
        if needed <= room:
            first.append(command)
            room -= needed
    return first + last


def pointed_at(commands: Sequence[Command], cells: int, x: int) -> Command | None:
    """Return the command of the footer that stands in a cell."""
    end = 1
    for command in _shown(commands, cells):
        begin, end = end, end + width(_entry(command))
        if begin <= x < end:
            return command
    return None


def _entry(command: Command) -> Line:
    return ((command.shown.split()[0], "key"), (f" {command.name}  ", "dim"))


def transport(
    scene: Scene, span: tuple[int, int], speed: float | None, *, paused: bool, cells: int
) -> Line:
    """Return where the replay stands between start and end of the recording."""
    now, (start, end) = scene.view.wall_us, span
    pace = "paused" if paused else "as fast as it goes" if speed is None else f"{speed:g}x"
    left: Line = (
        (f" {'‖' if paused else '▶'} {pace:<7}", "strong"),
        (clock(start) + " ", "dim"),
    )
    right: Line = (
        (f" {clock(end)}", "dim"),
        (f"  {duration(now - start)} of {duration(end - start)} ", "text"),
    )
    room = max(5, cells - width(left) - width(right) - 2)
    share = 0.0 if end <= start else min(1.0, max(0.0, (now - start) / (end - start)))
    at = round(share * (room - 1))
    track: Line = (
        ("├" + "─" * at, "strip"),
        ("●", "strong"),
        ("─" * (room - 1 - at) + "┤", "faint"),
    )
    return clip((*left, *track, *right), cells)


def too_small(cells: int, lines: int, least: tuple[int, int]) -> Line:
    """Return what is said when there is no room for anything."""
    return clip(
        ((f"too small: {cells}x{lines}, {least[0]}x{least[1]} is the least", "strong"),), cells
    )
