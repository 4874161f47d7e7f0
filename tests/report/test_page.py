"""The page: whole by itself, without a script, and no name ever becomes markup."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from gpuwatch.cli import main
from gpuwatch.model.event import AnyEvent, Fault, Link, Tick
from gpuwatch.model.text import sanitize
from gpuwatch.model.verdict import (
    Candidate,
    Culprit,
    Finding,
    JobVerdict,
    Missing,
    Recurring,
    Verdict,
)
from gpuwatch.report.build import Subject, build
from gpuwatch.report.html import Measured, page
from gpuwatch.report.series import QUANTITIES, Bins, Series
from gpuwatch.report.timeline import Clock, said_of
from gpuwatch.verdict.thresholds import Thresholds

RECORDINGS = Path(__file__).parents[2] / "recordings"
HOSTILE = {
    "markup": """<script>alert(1)</script>]]>--><img src=x onerror=alert(1)>" onload="a</style>&lt;b&gt;""",
    "formula and template": r"$\frac{1}{0}$ {{7*7}} javascript:alert(1) ${x} %s {0}",
    "terminal": "a\x1b]52;c;aGk=\x07 \x9b2J\u202eb\ud800 line\nbreak \x00 日本 \U0001f600",
    "long": "x" * 5000,
    "nothing": "",
}
SECOND = 1_000_000


class Seen(HTMLParser):
    """What a browser makes of a page: elements, attributes, text."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.words: list[str] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def hostile_page(name: str) -> str:
    """Return the page of a job in which every string is one that a node or a file could send."""
    fact = Finding(name, 1.0, name, 0.5, name)
    job = Verdict(
        scope="job", state="STORAGE", cause="read", culprits=(Culprit("node", name, (name,)),), waiting=(name,),
        suspected_us=0, confirmed_us=30 * SECOND, confidence=0.9, support=(fact,), against=(fact,),
        missing=(Missing(name, name),), candidates=(Candidate("CPU", name, 0.4),),
    )  # fmt: skip
    node = Verdict(scope="node", node=name, state="STORAGE", cause="read")
    rank = msgspec.structs.replace(node, scope="rank", rank=name, group=name)
    again = (Recurring("node", name, "CPU", None, 3, 2.0, None, 0.1),)
    said = JobVerdict(job=job, nodes=(node,), ranks=(rank,), recurring=again)
    ticks = [(Tick(event_no=s, arrived_us=s * SECOND, wall_us=s * SECOND), said) for s in range(90)]
    when = {"event_no": 1, "arrived_us": SECOND, "wall_us": SECOND}
    events: list[AnyEvent] = [
        Fault(**when, node=name, source=name, text=name),
        Link(**when, node=name, state="lost", step="login", reason=name, hint=name),
    ]
    subject = Subject(
        job=name, interval_s=1.0, clock=Clock(0, 0), thresholds=Thresholds().as_dict()
    )
    bins = Bins(0, 9 * SECOND, 10)
    series = [Series(name, name, (1.0, None, *[3.0] * 8))]
    return page(
        build(subject, said_of(ticks), events),
        Measured(bins, series, tuple((q, series) for q in QUANTITIES)),
    )


@pytest.fixture(scope="module")
def plain() -> Seen:
    """What a page of plain names has."""
    return Seen(hostile_page("gpu01"))


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_name_ever_becomes_markup(kind: str, plain: Seen) -> None:
    name = HOSTILE[kind]
    document = hostile_page(name)
    seen = Seen(document)
    assert seen.tags <= plain.tags
    assert seen.attributes.keys() <= plain.attributes.keys()
    document.encode("utf-8")
    assert not {c for c in document if not c.isprintable()} - {"\n"}
    if 0 < len(name) < 200:
        assert sum(sanitize(name) in words for words in seen.words) >= 10


def test_a_page_is_whole_by_itself_and_has_no_script(plain: Seen) -> None:
    assert not plain.tags & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "a",
    }
    assert not {
        name for name in plain.attributes if name.startswith("on") or name in ("src", "srcset")
    }
    assert all(
        re.fullmatch(r"#[mp][0-9a-f]{10}", target) for target in plain.attributes.get("href", ())
    )
    assert not re.search(r"url\((?!#)|@import|https?:", hostile_page("gpu01"))


def test_a_page_is_the_same_whatever_the_readers_matplotlibrc_says() -> None:
    import matplotlib as mpl

    before = hostile_page("gpu01")
    with mpl.rc_context(
        {"text.usetex": True, "axes.facecolor": "red", "svg.fonttype": "path", "font.size": 40}
    ):
        assert hostile_page("gpu01") == before


def test_without_matplotlib_it_is_said_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["report", str(RECORDINGS / "net-loss"), "--html", str(tmp_path / "r.html")]) == 2
    assert (
        "pictures need matplotlib; run: uv tool install 'gpuwatch-tui[html]'"
        in capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == []


def test_a_recordings_page_says_the_answer_and_is_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.html"
    assert main(["report", str(RECORDINGS / "net-loss"), "--html", str(file)]) == 0
    assert capsys.readouterr() == ("", f"wrote {file}\n")
    document = file.read_text("utf-8")
    assert len(document) < 2_000_000
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    words = "\n".join(Seen(document).words)
    assert re.search(
        r"The job waited on the network \(loss\) .* to blame: gpu02 -> gpu03 \(confirmed", words
    )
    assert "TCP segments lost" in words
    assert words.count("n/a") == 0
    ids = re.findall(r'\bid="([^"]+)"', document)
    assert len(ids) == len(set(ids))


def test_a_place_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "absent" / "report.html"
    assert main(["report", str(RECORDINGS / "net-loss"), "--html", str(file)]) == 2
    assert "absent/report.html: there is no such folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("NETWORK", 1), ("STORAGE, NETWORK/loss", 1), ("NETWORK/link,CPU/quota", 0), ("NETWRK", 2), ("NETWORK/rain", 2),
    ],
)  # fmt: skip
def test_fail_on_names_what_must_not_have_been_confirmed(
    given: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(RECORDINGS / "net-loss"), "--fail-on", given]) == code
    assert bool(capsys.readouterr().err) == (code == 2)


def test_what_was_confirmed_outside_the_time_asked_for_fails_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["report", str(RECORDINGS / "net-loss"), "--to", "+20s", "--fail-on", "NETWORK"]
    assert main(words) == 0
    assert "NETWORK" not in capsys.readouterr().out
