"""The report as one page: readable offline and on paper, without a script, the answer first."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from xml.etree.ElementTree import Element

from gpuwatch import __version__
from gpuwatch.model.verdict import LETTERS, STATES
from gpuwatch.report import series as measures
from gpuwatch.report.answer import answer, worst
from gpuwatch.report.incidents import incidents, recurring
from gpuwatch.report.markup import Child, document, el
from gpuwatch.report.palette import stylesheet, variable
from gpuwatch.report.pictures import Shade, Span, lanes, lines
from gpuwatch.report.series import Bins, Quantity, Series
from gpuwatch.report.tracks import Drawn, blamed, drawn, shades, tracks
from gpuwatch.report.types import Changes, Gap, Happening, Report
from gpuwatch.report.words import duration, hours, money, peak_words, said, time_by_word
from gpuwatch.verdict.thresholds import Thresholds, shown

__all__ = ["Measured", "page"]

ROWS = 100
"""Gaps and events that are told; JSON has them all."""
_PLAIN = ("link_connecting", "link_streaming", "link_ended", "agent_started")
"""What happens in every recording."""
WORTH = 1.005
"""A gain that is worth a word."""


class Measured(NamedTuple):
    """What was measured over time: the share of computing, and each quantity."""

    bins: Bins
    activity: list[Series]
    quantities: tuple[tuple[Quantity, list[Series]], ...]


def page(report: Report, measured: Measured) -> str:
    """Return the page.

    Args:
        report: to tell.
        measured: in the same time.
    """
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width,initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{report.job}: gpuwatch report"),
        _style(),
    )
    body = el("body", _head(report), el("main", *_main(report, measured)), _foot(report))
    return document(el("html", head, body, lang="en"))


def _style() -> Element:
    """Return the style sheet, which is our own text: of all elements this one is not escaped."""
    made = el("style")
    made.text = stylesheet()
    return made


def _main(report: Report, measured: Measured) -> Iterator[Child]:
    yield from _pictures(report, measured)
    yield from _ledger(report)
    yield from incidents(report)
    yield from recurring(report)
    yield from _hours(report)
    yield from _changes(report.changes)
    yield from _gaps(report.gaps)
    yield from _events(report.events)


def _head(report: Report) -> Element:
    nodes = sorted(report.share)
    end = _instant(report.end)
    if report.begin.astimezone(UTC).date() == report.end.astimezone(UTC).date():
        end = end.partition(" ")[2]
    span = f"{_instant(report.begin)} to {end} UTC"
    return el(
        "header",
        el("h1", report.job),
        el(
            "p",
            f"{span}, {duration((report.end - report.begin).total_seconds())}, {len(nodes)} nodes",
        ),
        el("p", answer(report, UTC), class_="answer", style=f"--ink:{variable(_ink(report))}"),
        el("dl", *_figures(report), class_="figures"),
    )


def _figures(report: Report) -> Iterator[Element]:
    """Yield the few numbers that matter most."""
    ledger = report.ledger
    job = time_by_word(row for row in report.verdicts if row.scope == "job")
    if ledger.gpu_hours:
        computed = ledger.by.get("COMPUTE", 0.0)
        lost = ledger.gpu_hours - computed - ledger.by.get("UNKNOWN", 0.0) - ledger.unseen
        yield _figure("GPU time computing", f"{computed / ledger.gpu_hours:.0%}")
        yield _figure("GPU hours lost", hours(lost), f" of {hours(ledger.gpu_hours)}")
    if ledger.amount is not None:
        paid = sum(paid for name, paid in ledger.amount.items() if name != "UNKNOWN")
        yield _figure("Paid for waiting", f"{paid:,.2f}", f" {ledger.currency}")
    if report.slowdown is not None:
        yield _figure("Slower than its best", f"{report.slowdown:.1f}x")
    yield _figure("Time not known", f"{job.get('UNKNOWN', 0.0):.0%}")


def _figure(name: str, value: str, unit: str = "") -> Element:
    return el("div", el("dt", name), el("dd", value, el("small", unit) if unit else None))


def _pictures(report: Report, measured: Measured) -> Iterator[Child]:
    span = Span(report.begin, report.end)
    laid = tracks(report, span)
    yield el("h2", "Who waited on what")
    yield el(
        "figure",
        lanes(laid.lanes, span, "verdicts of the job, nodes and ranks over time"),
        _letters(report),
    )
    if laid.left_out:
        yield el(
            "p",
            f"{laid.left_out} lanes that waited less are left out; JSON has them.",
            class_="note",
        )
    guilty = blamed(worst(report))
    ink = _ink(report) if guilty else "strip"
    shaded = shades(report, span)

    def panel(title: str, unit: str, found: list[Series], **more: float) -> Iterator[Child]:
        made = drawn(found, measured.bins, span, guilty, ink)
        yield el("h3", title, el("span", f", {unit}", class_="dim"))
        if made.lines:
            yield _panel(made, span, title, shaded, ink, **more)
        else:
            yield el("p", "n/a: nothing of it was read.", class_="note")

    yield el("h2", "What was measured")
    yield el(
        "p",
        "Shaded: the times in which the job waited. A line that breaks off was not read.",
        class_="note",
    )
    yield from panel("GPU time in compute", "%", measured.activity, top=100.0)
    for quantity, found in measured.quantities:
        limit = {"limit": quantity.floor} if quantity is measures.RETRANSMITS else {}
        yield from panel(quantity.title, quantity.unit, found, **limit)


def _panel(
    made: Drawn, span: Span, title: str, shaded: Sequence[Shade], ink: str, **more: float
) -> Element:
    after = "" if ink == "strip" else " (to blame)"
    clear: dict[int, list[str]] = {}
    for name, dash in made.clear.items():
        clear.setdefault(dash, []).append(name)
    key = [_key(ink, _listed(names) + after, dash) for dash, names in sorted(clear.items())]
    if made.others:
        many = f"{len(made.others)} others: range and middle"
        key.append(_key("dim", _listed(made.others) if made.band is None else many, 0))
    if "limit" in more:
        key.append(el("li", f"dashed: {more['limit']:g} %, from which on the network comes first"))
    picture = lines(made.lines, span, title, band=made.band, shades=shaded, **more)
    return el("figure", picture, el("ul", *key, class_="key"))


def _key(ink: str, text: str, dash: int) -> Element:
    line = el("i", class_=f"line dash{dash}", style=f"--ink:{variable(ink)}")
    return el("li", line, text)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _letters(report: Report) -> Element:
    seen = {row.state for row in report.verdicts}
    return el(
        "ul",
        (
            el("li", el("i", style=f"--ink:{variable(s.lower())}"), f"{LETTERS[s]} {s.lower()}")
            for s in STATES
            if s in seen
        ),
        class_="key",
    )


def _ink(report: Report) -> str:
    rows = worst(report)
    return rows[0].state.lower() if rows else "compute"


def _ledger(report: Report) -> Iterator[Child]:
    ledger = report.ledger
    yield el("h2", "What GPU time went into")
    if not ledger.gpu_hours:
        yield el("p", "n/a: no rank was judged.", class_="note")
        return
    priced = ledger.amount is not None
    entries = sorted(ledger.by.items(), key=lambda entry: (-entry[1], entry[0]))
    rows = [_row(report, name, spent) for name, spent in [*entries, ("not seen", ledger.unseen)]]
    total = [
        el("td", "all"),
        el("td", class_="bar"),
        _number(hours(ledger.gpu_hours)),
        _number("100.0%"),
    ]
    if priced and ledger.amount is not None:
        total.append(_number(f"{sum(ledger.amount.values()):,.2f} {ledger.currency}"))
    head = ["GPU hours", "share", *(["cost"] if priced else []), "without it, about"]
    yield el(
        "table",
        el(
            "thead",
            el(
                "tr", el("th"), el("th", class_="bar"), (el("th", n, class_="number") for n in head)
            ),
        ),
        el("tbody", rows),
        el("tfoot", el("tr", total, el("td"))),
    )
    yield el(
        "p",
        "A rank that waits for another is booked on what that one waits for. What would be gained is taken "
        "from the slowdown where that is known; another wait may hide behind the one that goes away.",
        "" if priced else " No price of a GPU hour is known: cost: {gpu_hour: 2.10} in the job file.",
        class_="note",
    )  # fmt: skip


def _row(report: Report, name: str, spent: float) -> Element:
    ledger = report.ledger
    share = spent / ledger.gpu_hours
    state = name.partition("/")[0]
    ink = variable(state.lower() if state in STATES else "faint")
    gain = ledger.gain.get(name, 1.0)
    return el(
        "tr",
        el("td", name.replace("/", " ")),
        el("td", el("span", style=f"width:{share:.1%};--ink:{ink}"), class_="bar"),
        _number(hours(spent)),
        _number(f"{share:.1%}"),
        None if ledger.amount is None else _number(money(report, name) or ""),
        _number(f"{gain:.2f}x as fast" if gain >= WORTH else ""),
    )


def _number(text: str) -> Element:
    return el("td", text, class_="number")


def _hours(report: Report) -> Iterator[Child]:
    """Yield what is high at some hour of the day."""
    if not report.hours:
        return
    yield el("h2", "By hour of day")
    told = [words for row in report.hours if (words := peak_words(row, report.end.astimezone(UTC)))]
    if told:
        yield el("ul", (el("li", f"{words} (UTC).") for words in told))
    else:
        yield el(
            "p",
            "No hour of the day stands out in round trips, retransmits or storage latency on several days.",
        )


def _changes(changes: Changes | None) -> Iterator[Child]:
    """Yield what other thresholds change for the job and its nodes; JSON has the ranks as well."""
    if changes is None:
        return
    moved = (
        f"{m.name} {shown(m.name, m.after)}, not {shown(m.name, m.before)}"
        for m in changes.thresholds
    )
    yield el("h2", "What other thresholds change")
    yield el("p", f"By {', '.join(moved) or 'the same thresholds'}.", class_="note")
    yield _table(
        ("from, UTC", "for", "whose", "before", "now"),
        [
            (
                _instant(c.begin),
                duration((c.end - c.begin).total_seconds()),
                c.node or "the job",
                said(c.before),
                said(c.after),
            )
            for c in changes.verdicts
            if c.scope != "rank"
        ],
    )


def _gaps(gaps: Sequence[Gap]) -> Iterator[Child]:
    if gaps:
        yield el("h2", "What was not seen")
        yield _table(
            ("from, UTC", "for", "whose", "why"),
            [
                (_instant(g.begin), duration((g.end - g.begin).total_seconds()), g.node or "the job", g.reason)
                for g in gaps
            ],
        )  # fmt: skip


def _events(events: Sequence[Happening]) -> Iterator[Child]:
    told = [e for e in events if e.kind not in _PLAIN]
    if told:
        yield el("h2", "What happened")
        yield _table(
            ("at, UTC", "whose", "what"),
            [(_instant(e.at), e.node or "the job", f"{e.kind.replace('_', ' ')}: {e.text}") for e in told],
        )  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Child:
    table = el(
        "table",
        el("thead", el("tr", (el("th", name) for name in head))),
        el("tbody", (el("tr", (el("td", cell) for cell in row)) for row in rows[:ROWS])),
    )
    more = len(rows) - ROWS
    return [table, el("p", f"and {more} more", class_="note") if more > 0 else None]


def _foot(report: Report) -> Element:
    defaults = Thresholds().as_dict()
    others = [
        f"{n} {shown(n, v)}"
        for n, v in report.thresholds.items()
        if n in defaults and v != defaults[n]
    ]
    by = f" Judged with {', '.join(others)}; all else as it is by default." if others else ""
    return el(
        "footer",
        el("p", f"Made by gpuwatch {__version__} from a recording. All times are UTC.{by}", class_="dim"),
    )  # fmt: skip


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
