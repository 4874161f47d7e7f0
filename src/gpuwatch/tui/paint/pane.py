"""A node's pane: its verdict on the border, its GPUs, and what they could wait on inside."""

from gpuwatch.model.view import NodeView
from gpuwatch.tui.paint.facts import Facts, Gpu, Wait
from gpuwatch.tui.paint.numbers import (
    MISSING,
    duration,
    flow,
    milliseconds,
    number,
    percent,
    scaled,
)
from gpuwatch.tui.paint.spans import (
    Line,
    Span,
    clip,
    columns,
    ends,
    fit,
    pad,
    safe,
    whole,
    width,
    wrap,
)
from gpuwatch.tui.paint.strip import activity, strip_cells
from gpuwatch.tui.paint.words import GPU_ROLES, WAITS, computing, role_of, state_words
from gpuwatch.tui.scene import Scene

__all__ = [
    "CARD",
    "SHORT",
    "age",
    "card_lines",
    "gpu_letters",
    "pane",
    "status",
    "trouble",
    "waits",
]

SHORT = 8
"""Lines of a pane without a line for each GPU."""
LABEL = 6
WIDE = 47
"""Cells inside a pane that leave room for words beside the numbers."""
WORDY = 26
"""Cells that the share of compute takes with its word, and power beside it."""
SPACED = 8
"""GPUs whose letters stand apart; more stand together."""
LOSS = 0.001
"""Share of segments sent again that is marked."""
DULL = {"run", "futex", "pipe", "poll", "sleep", "gpu", "process", "unknown"}
"""Waits that say little by themselves: work, queues, timers."""
CARD = 27
"""Cells that one GPU's index, letter, utilisation, power and heat take."""


def pane(scene: Scene, node: NodeView, cells: int, height: int, *, chosen: bool) -> list[Line]:
    """Return one node's pane in exactly `height` lines of `cells` cells."""
    inside = cells - 4
    words, role = status(scene, node)
    body = _body(scene, node, inside, height - 2)
    edge = role if node.name in scene.blamed or trouble(node) else "key" if chosen else "faint"
    top = _border("╭", "╮", _name(node, chosen=chosen), ((f" {words} ", role),), cells, edge)
    bottom = _border("╰", "╯", _age(node, scene.facts(node)), (), cells, edge)
    left: Span = ("│ ", edge)
    right: Span = (" │", edge)
    blank: Line = ((" " * inside, "text"),)
    rows = [*body, *[blank] * (height - 2 - len(body))]
    return [top, *[(left, *pad(row, inside), right) for row in rows[: height - 2]], bottom]


def status(scene: Scene, node: NodeView) -> tuple[str, str]:
    """Return a node's state in words, and its role."""
    if trouble(node):
        link = node.link
        return (f"NO DATA {safe(link.state)}" if link is not None else "NO DATA", "bad")
    verdict = scene.by_node.get(node.name)
    if verdict is None:
        return "UNKNOWN", "unknown"
    return state_words(verdict), role_of(verdict.state)


def trouble(node: NodeView) -> bool:
    """Tell whether nothing fresh comes from a node."""
    return node.stale or node.link is None or node.link.state in {"lost", "refused", "ended"}


def age(node: NodeView) -> tuple[str, str]:
    """Return how old a node's numbers are, and the role to say it in."""
    if node.age_us is None:
        return MISSING, "old"
    text = "<1 s" if node.age_us < 1_000_000 else duration(node.age_us)
    return text, "bad" if node.stale else "warn" if node.late else "dim"


def gpu_letters(gpus: tuple[Gpu, ...], gap: str = " ") -> Line:
    """Return one letter a GPU."""
    spans: list[Span] = []
    for gpu in gpus:
        if spans:
            spans.append((gap, "text"))
        spans.append((gpu.letter, GPU_ROLES[gpu.letter]))
    return tuple(spans)


def waits(found: Facts, cells: int) -> Line:
    """Return what most threads of each role wait in, the telling waits first."""
    told = sorted(found.waits, key=lambda wait: wait.family in DULL)
    return whole((_wait(wait, first=i == 0) for i, wait in enumerate(told)), cells)


def _wait(wait: Wait, *, first: bool) -> Line:
    gap = "" if first else "  "
    words = WAITS.get(wait.family, safe(wait.family))
    return ((f"{gap}{safe(wait.role)} ", "dim"), (f"{words} {percent(wait.share)}", "text"))


def _border(left: str, right: str, start: Line, end: Line, cells: int, role: str) -> Line:
    start = clip(start, cells - 4)
    end = clip(end, max(0, cells - 4 - width(start) - 1))
    fill = cells - 4 - width(start) - width(end)
    return ((left + "─", role), *start, ("─" * fill, role), *end, ("─" + right, role))


def _name(node: NodeView, *, chosen: bool) -> Line:
    name = safe(node.name)
    return ((f"▸{name} ", "cursor"),) if chosen else ((f" {name} ", "strong"),)


def _age(node: NodeView, found: Facts) -> Line:
    text, role = age(node)
    spans: list[Span] = [(f" {text} ago " if node.age_us is not None else " never seen ", role)]
    if found.agent is not None:
        spans.append((f"· agent {percent(found.agent, 1)} of a core ", "dim"))
    return tuple(spans)


def _body(scene: Scene, node: NodeView, cells: int, rows: int) -> list[Line]:
    if not trouble(node):
        return _numbers(scene, node, cells, rows)
    told = _link(node, cells)
    if not node.points:
        return told
    old = [tuple((text, "old") for text, _ in row) for row in _numbers(scene, node, cells, rows)]
    return [*told, *old]


def _link(node: NodeView, cells: int) -> list[Line]:
    """Return which step was reached, why it went no further, and the one thing to do."""
    link = node.link
    if link is None:
        return [(("waits for its turn to connect", "dim"),)]
    if link.state == "streaming":
        return [(("link up, but no samples", "bad"),)]
    lines: list[Line] = [
        ((f"{safe(link.state)} ", "bad"), (f"after step {safe(link.step)}", "dim"))
    ]
    lines += [((row, "strong"),) for row in wrap(safe(link.reason or "no reason given"), cells, 2)]
    if link.hint:
        lines += [((row, "key"),) for row in wrap(f"→ {safe(link.hint)}", cells, 2)]
    return lines


def _numbers(scene: Scene, node: NodeView, cells: int, rows: int) -> list[Line]:
    found = scene.facts(node)
    room = cells - LABEL
    lines = [
        _gpus(scene, node, found, cells),
        _strip(scene, node, cells),
        _row("wait", waits(found, room) or ((_why(node, "threads") or MISSING, "old"),)),
        _net(node, found, cells),
        _storage(node, found, room),
        _row("cpu", _cpu(node, found, room)),
    ]
    left = rows - len(lines)
    if found.gpus and left >= card_lines(len(found.gpus), cells + 4):
        lines += _cards(found.gpus, cells, left)
    return lines


def _row(label: str, line: Line) -> Line:
    return ((fit(label, LABEL), "dim"), *line)


def _why(node: NodeView, source: str) -> str | None:
    reason = node.absence(source)
    return None if reason is None else f"{MISSING}  {safe(reason)}"


def _gpus(scene: Scene, node: NodeView, found: Facts, cells: int) -> Line:
    if not found.gpus:
        return _row("GPU", ((_why(node, "nvml") or f"{MISSING}  no GPU listed", "old"),))
    roomy = len(found.gpus) <= SPACED and cells >= WIDE
    left = (*_row("GPU", gpu_letters(found.gpus, " " if roomy else "")), *_told(found.gpus))
    act = f"{percent(computing(scene.by_node.get(node.name))):>5}"
    word = "  compute " if roomy and cells - width(left) >= WORDY else "  "
    share: Line = ((word, "dim"), (act, "strong"))
    power: Line = ()
    if found.power_w is not None:
        limit = "" if found.limit_w is None else f"/{found.limit_w:.0f}"
        power = ((f"  {found.power_w:.0f}{limit} W", "text"),)
    return ends(left, whole((share, power), cells - width(left)), cells)


def _told(gpus: tuple[Gpu, ...]) -> Line:
    """Return how many GPUs of how many tell how busy they are, where some do not or one is lost."""
    telling = sum(gpu.util is not None for gpu in gpus)
    lost = any(gpu.lost for gpu in gpus)
    if not lost and telling in {0, len(gpus)}:
        return ()
    return ((f"  {telling}/{len(gpus)}", "bad" if lost else "old"),)


def _strip(scene: Scene, node: NodeView, cells: int) -> Line:
    scale = " 0-100 %, 5 min" if cells >= WIDE else " 5 min"
    wide = strip_cells(cells - LABEL - len(scale))
    return _row(
        "", (*activity(scene.history, node.name, scene.view.now_us, wide), (scale, "faint"))
    )


def _net(node: NodeView, found: Facts, cells: int) -> Line:
    """Return the busiest interface's flow beside its line rate; without that, bytes alone."""
    nic = found.nic
    if nic is None:
        return _row("net", ((_why(node, "nic") or MISSING, "old"),))
    lost = found.loss is not None and found.loss >= LOSS
    loss: Line = ((" loss ", "dim"), (percent(found.loss, 2), "warn" if lost else "text"))
    rate = "unknown" if nic.line_bps is None else number(nic.line_bps / 1e9)
    parts: tuple[Line, ...] = (
        ((flow(nic.down, nic.up, nic.line_bps), "text"),),
        ((f" of {rate}", "dim"),),
        ((f"  {safe(nic.name, 12)} ", "dim"),),
    )
    return ends(_row("net", whole(parts, cells - LABEL - width(loss))), loss, cells)


def _storage(node: NodeView, found: Facts, cells: int) -> Line:
    """Return the busiest disk, or the network mount where more waits on that."""
    mount = found.mount
    if mount is None or mount.waiting <= (found.disk.busy if found.disk else 0.0):
        return _row("disk", _disk(node, found, cells))
    pace = "" if mount.bytes_s is None else f"  {scaled(mount.bytes_s, 'B/s')}"
    parts: tuple[Line, ...] = (
        ((f"{milliseconds(mount.await_ms)}{pace}", "text"),),
        ((f"  {safe(mount.type, 8)} {safe(mount.path, 24)}", "dim"),),
    )
    return _row("mount", whole(parts, cells))


def _disk(node: NodeView, found: Facts, cells: int) -> Line:
    disk = found.disk
    if disk is None:
        return ((_why(node, "disk") or MISSING, "old"),)
    wait = "quiet" if disk.await_ms is None else milliseconds(disk.await_ms)
    pace: Line = ((f"{wait}  {scaled(disk.bytes_s, 'B/s')}", "text"),)
    busy: Line = (("  busy ", "dim"), (percent(disk.busy), "text"))
    return whole((pace, busy, ((f"  {safe(disk.name, 12)}", "dim"),)), cells)


def _cpu(node: NodeView, found: Facts, cells: int) -> Line:
    if found.cpu is None:
        return ((_why(node, "cpu") or MISSING, "old"),)
    queue = f" {safe(found.queue, 24)}" if found.queue and (found.kworker or 0) >= 0.005 else ""
    return whole(
        (
            ((f"{percent(found.cpu)}", "text"),),
            (("  iowait ", "dim"), (percent(found.iowait), "text")),
            (("  kwork ", "dim"), (percent(found.kworker), "text")),
            ((queue, "dim"),),
        ),
        cells,
    )


def card_lines(gpus: int, cells: int, card: int = CARD) -> int:
    """Return how many lines a pane needs for its GPUs, when each gets `card` cells at least."""
    return -(-gpus // max(1, (cells - 4) // card))


def _cards(gpus: tuple[Gpu, ...], cells: int, lines: int) -> list[Line]:
    """Return GPUs below and, if lines are short, beside each other, counted down the columns."""
    across = -(-len(gpus) // lines)
    rows = [gpus[start::lines] for start in range(min(lines, len(gpus)))]
    room = cells // across
    return [columns([(_card(gpu, room), room) for gpu in row], 0) for row in rows]


def _card(gpu: Gpu, cells: int) -> Line:
    if gpu.lost:
        return ((f"{gpu.index:>2} ", "dim"), (f"{gpu.letter} lost", GPU_ROLES[gpu.letter]))
    power = MISSING if gpu.power_w is None else f"{gpu.power_w:.0f} W"
    heat = MISSING if gpu.temperature_c is None else f"{number(gpu.temperature_c)} °C"
    line: list[Span] = [
        (f"{gpu.index:>2} ", "dim"),
        (f"{gpu.letter} ", GPU_ROLES[gpu.letter]),
        (f"{percent(gpu.util):>5}  {power:>6}  {heat:>5}", "text"),
    ]
    limit = "" if gpu.limit_w is None else f" {gpu.limit_w:.0f} W"
    room = cells - width(line) - 2 - len(limit)
    if room >= 4 and gpu.power_w is not None and gpu.limit_w:
        filled = min(room, round(room * gpu.power_w / gpu.limit_w))
        line += [
            ("  " + "━" * filled, GPU_ROLES[gpu.letter]),
            ("━" * (room - filled), "rail"),
            (limit, "dim"),
        ]
    return tuple(line)
