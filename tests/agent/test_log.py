"""The job's log: real files that grow, rotate, are cut, and are no logs at all."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent.log import BUDGET, MAX_LINE, RETRY_S, Log, plain

NOBODY = 65534
TEXTS = (("step", "step "), ("tokens", "tok/s "))


class Followed:
    """A log, its follower, and a clock that moves a second a look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = Log(str(path), TEXTS)
        self.now = 100.0

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def look(self) -> dict[str, str]:
        self.now += RETRY_S
        self.log.look(self.now)
        return {name: line for name, _, line in self.log.held()}


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    (tmp_path / "train.log").touch()
    one = Followed(tmp_path / "train.log")
    yield one
    one.log._close("", 0.0)


def test_who_comes_late_reads_only_the_end(followed: Followed) -> None:
    followed.write("tok/s 5\n" + "noise\n" * BUDGET + "step 41\nstep 42 loss 0.3\nmore\n")
    assert followed.look() == {"step": "step 42 loss 0.3"}
    assert followed.log.bytes == BUDGET
    assert followed.log.skipped_bytes == 0


def test_only_the_newest_line_with_a_text_is_kept(followed: Followed) -> None:
    followed.write("key=hunter2\nstep 1\nkey=hunter2\nstep 2 tok/s 7\nhunter2\n")
    assert followed.look() == {"step": "step 2 tok/s 7", "tokens": "step 2 tok/s 7"}
    followed.write("step 3\n")
    assert followed.look() == {"step": "step 3", "tokens": "step 2 tok/s 7"}
    assert followed.log.held()[0] == ("step", 3, "step 3")
    assert followed.log.lines == 6


def test_a_line_counts_once_it_is_whole(followed: Followed) -> None:
    followed.write("step 1\nstep 1")
    assert followed.look() == {"step": "step 1"}
    followed.write("2 of")
    assert followed.look() == {"step": "step 1"}
    followed.write(" 90\nste")
    assert followed.look() == {"step": "step 12 of 90"}


def test_a_progress_bar_and_its_colours_are_lines(followed: Followed) -> None:
    followed.write("\rstep \x1b[1m7\x1b[0m/90\tloss\a\r\x1b[32mstep 8")
    assert followed.look() == {"step": "step 7/90 loss "}


@pytest.mark.parametrize("way", ["renamed", "copied and cut", "removed"])
def test_rotation_loses_nothing(followed: Followed, way: str) -> None:
    followed.write("step 1\n")
    followed.look()
    followed.write("step 2 tok/s 9\n")
    if way == "copied and cut":
        followed.look()
        shutil.copy(followed.path, f"{followed.path}.1")
        os.truncate(followed.path, 0)
    elif way == "renamed":
        followed.path.rename(f"{followed.path}.1")
    else:
        followed.path.unlink()
        followed.look()
    followed.write("step 3\n")
    followed.look()
    followed.write("step 4\n")
    assert followed.look() == {"step": "step 4", "tokens": "step 2 tok/s 9"}
    assert followed.log.held()[0][1] == 4
    assert followed.log.reason == ""


def test_a_log_that_grows_fast_is_skipped_ahead_and_counted(followed: Followed) -> None:
    followed.look()
    lines = [f"step {number} {'x' * 90}\n" for number in range(10_000)]
    followed.write("".join(lines))
    assert followed.look() == {"step": lines[-1].strip()}
    assert followed.log.bytes == BUDGET
    assert followed.log.bytes + followed.log.skipped_bytes == sum(map(len, lines))
    assert followed.log.lines < BUDGET // 90


def test_of_a_long_line_the_part_around_its_text_is_told(followed: Followed) -> None:
    followed.write("{" + "a" * 5000 + "step 12 " + "b" * 5000 + "}\n")
    told = followed.look()["step"]
    assert "step 12 " in told
    assert len(told) == MAX_LINE


def test_a_line_without_end_is_bounded(followed: Followed) -> None:
    for _ in range(5):
        followed.write("x" * BUDGET)
        followed.look()
    assert len(followed.log._rest) == BUDGET
    followed.write("\nstep 1\n")
    assert followed.look() == {"step": "step 1"}


def test_what_is_no_log_is_told_and_tried_again(followed: Followed) -> None:
    followed.path.unlink()
    assert followed.look() == {}
    assert followed.log.reason == "No such file or directory"
    followed.path.mkdir()
    followed.look()
    assert followed.log.reason == "is not a plain file"
    followed.path.rmdir()
    os.mkfifo(followed.path)
    began = time.monotonic()
    followed.look()
    assert time.monotonic() - began < 1
    assert followed.log.reason == "is not a plain file"
    followed.path.unlink()
    followed.write("step 1\n")
    followed.log.look(followed.now + RETRY_S / 2)
    assert followed.log.reason == "is not a plain file"
    assert followed.look() == {"step": "step 1"}
    assert followed.log.reason == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be nobody")
def test_without_the_right_to_read_it_says_so(followed: Followed) -> None:
    followed.write("step 1\n")
    followed.path.chmod(0o600)
    for folder in (followed.path.parent, followed.path.parent.parent):
        folder.chmod(0o755)
    os.seteuid(NOBODY)
    try:
        assert followed.look() == {}
    finally:
        os.seteuid(0)
    assert followed.log.reason == "Permission denied"
    assert followed.look() == {"step": "step 1"}


@given(
    st.lists(st.binary(max_size=300) | st.sampled_from([b"step 1\n", b"\n", b"\xff\xf0step \x1b["]))
)
def test_any_bytes_give_plain_short_lines_with_the_text(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("log") / "rubbish"
    path.touch()
    log = Log(str(path), TEXTS)
    for number, chunk in enumerate(chunks):
        with path.open("ab") as file:
            file.write(chunk)
        log.look(number)
    log._close("", 0.0)
    assert log.reason == ""
    assert log.bytes == sum(map(len, chunks))
    for name, count, line in log.held():
        assert dict(TEXTS)[name] in line
        assert line.isprintable()
        assert len(line) <= MAX_LINE
        assert count <= log.lines


@given(st.binary())
def test_any_bytes_become_plain_text(line: bytes) -> None:
    assert plain(line).isprintable()
