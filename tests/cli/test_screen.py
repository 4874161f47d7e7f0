"""The screen as a real process in a real terminal."""

import signal
from pathlib import Path

import psutil
import pytest

import gpuwatch.recording
from gpuwatch.model.event import Sample
from gpuwatch_process import COMMAND, environment, run_gpuwatch
from sshd import wait_until
from terminal import Terminal

MAIN_SCREEN = b"\x1b[?1049l"
MOUSE_ON, MOUSE_OFF = b"\x1b[?1000h", b"\x1b[?1000l"
SAMPLED = b" of a core"
"""What a node's agent costs is shown once samples came; ` ago` stands at the timeline before."""


@pytest.mark.parametrize("how", ["q", "\x03", signal.SIGTERM, signal.SIGHUP])
def test_live_records_and_ends_cleanly(tmp_path: Path, how: str | signal.Signals) -> None:
    with Terminal([*COMMAND, "--record"], environment(XDG_STATE_HOME=str(tmp_path))) as terminal:
        terminal.wait_for(b"MB")
        terminal.wait_for(SAMPLED)
        if isinstance(how, str):
            terminal.press(how.encode())
        else:
            terminal.kill(how)
        assert terminal.exit_code() == 0
    _, left, after = terminal.seen.rpartition(MAIN_SCREEN)
    assert left
    (folder,) = tmp_path.glob("gpuwatch/*/*")
    assert str(folder).encode() in after
    assert any(isinstance(event, Sample) for event in gpuwatch.recording.open(folder).events())


def test_a_recording_that_cannot_begin_ends_the_screen_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Terminal(
        [*COMMAND, "--record"], environment(XDG_STATE_HOME=str(tmp_path / "file"))
    ) as terminal:
        terminal.wait_for(b"gpuwatch: ")
        assert terminal.exit_code() == 2
    _, _, after = terminal.seen.rpartition(MAIN_SCREEN)
    assert b"Traceback" not in after
    assert str(tmp_path / "file").encode() in after


@pytest.mark.parametrize("how", [b"\x1a", signal.SIGTSTP])
def test_stopped_and_called_back_it_is_drawn_anew(how: bytes | signal.Signals) -> None:
    """Cases T01 and T02: the shell gets its terminal back, without reports of the mouse."""
    with Terminal(COMMAND, environment()) as terminal:
        terminal.wait_for(SAMPLED)
        if isinstance(how, bytes):
            terminal.press(how)
        else:
            terminal.kill(how)
        terminal.wait_for(MAIN_SCREEN)
        assert terminal.seen.rindex(MOUSE_OFF) > terminal.seen.rindex(MOUSE_ON)
        stopped = psutil.Process(terminal.process.pid)
        wait_until(lambda: stopped.status() == psutil.STATUS_STOPPED, "it does not stop")
        assert terminal.cooked()
        terminal.seen = b""
        terminal.kill(signal.SIGCONT)
        for unchanged in (b"timeline", b"quit"):
            terminal.wait_for(unchanged)
        terminal.press(b"q")
        assert terminal.exit_code() == 0


def test_a_terminal_without_a_cursor_is_refused() -> None:
    with Terminal(COMMAND, environment(), term="dumb") as terminal:
        terminal.wait_for(b"gpuwatch snapshot")
        assert terminal.exit_code() == 2
    assert b"\x1b" not in terminal.seen


def test_this_machine_alone_is_not_recorded_unasked(tmp_path: Path) -> None:
    with Terminal(COMMAND, environment(XDG_STATE_HOME=str(tmp_path))) as terminal:
        terminal.wait_for(b"not recorded")
        terminal.press(b"q")
        terminal.exit_code()
    assert not list(tmp_path.iterdir())


def test_a_recording_plays_in_the_same_screen(tmp_path: Path) -> None:
    out = tmp_path / "R"
    assert run_gpuwatch("record", "--out", out, "--for", "3s").returncode == 0
    with Terminal([*COMMAND, "replay", str(out)], environment()) as terminal:
        terminal.wait_for(b"replay")
        terminal.wait_for(SAMPLED)
        terminal.press(b"q")
        assert terminal.exit_code() == 0
    done = run_gpuwatch("replay", out)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "gpuwatch report" in done.stderr


def test_what_is_no_recording_is_said(tmp_path: Path) -> None:
    for command in ("replay", "report"):
        done = run_gpuwatch(command, tmp_path)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "not a recording" in done.stderr


def test_the_demo_plays_without_anything_else() -> None:
    with Terminal([*COMMAND, "demo"], environment()) as terminal:
        terminal.wait_for(b"DEMO, a recording")
        terminal.wait_for(b" ago")
        assert not terminal.cooked()
        terminal.kill(signal.SIGQUIT)
        assert terminal.exit_code() == 0
        assert terminal.cooked()
    assert terminal.seen.rindex(MOUSE_OFF) > terminal.seen.rindex(MOUSE_ON)
    assert MAIN_SCREEN in terminal.seen


def test_t04_in_the_background_it_waits_until_it_is_called() -> None:
    """T04: nothing is written into the shell meanwhile, and its terminal stays as it was."""
    with Terminal(["bash", "--norc", "--noediting", "-i"], environment(PS1="shell> ")) as terminal:
        terminal.wait_for(b"shell> ")
        terminal.press(f"{' '.join(COMMAND)} demo &\n".encode())
        terminal.wait_for(b"[1] ")
        asleep = 'until [ "$(jobs -s)" ]; do sleep 0.05; done; jobs'
        terminal.press(asleep.encode() + b"\n")
        terminal.wait_for(b"Stopped")
        assert terminal.cooked()
        assert b"\x1b[?1049h" not in terminal.seen
        terminal.press(b"fg\n")
        terminal.wait_for(b"DEMO, a recording")
        terminal.seen = b""
        terminal.press(b"q")
        terminal.wait_for(b"shell> ")
        assert MAIN_SCREEN in terminal.seen
        terminal.press(b"exit\n")
        assert terminal.exit_code() == 0


def test_a_demo_that_is_not_there_is_said() -> None:
    done = run_gpuwatch("demo", "nothing")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
