"""The agent's loop: keep the schedule, send, listen, and be gone when nobody listens.

It runs in a thread of its own and touches no file of the node: who reads may hang (crew.py).
"""

import _thread
import contextlib
import os
import select
import signal
import sys
import time
from typing import Any, Dict, List, Optional

from gpuwatch.agent import catalogue, frame, pipes
from gpuwatch.agent.crew import Crew, Round
from gpuwatch.agent.facts import boot_id, facts
from gpuwatch.agent.govern import Governor
from gpuwatch.agent.guard import Guard
from gpuwatch.agent.host import KEPT, Host, options_of
from gpuwatch.agent.metric import Labels, Value

NICE = 5
"""Not 19: a third to half of the samples would be lost exactly when CPUs are short."""
NAMES_EVERY_S = 60.0
START_S = 30.0
"""When nothing runs by then that could hear the viewer go, SIGALRM ends the process."""
LOOK_S = 0.025
"""After so long, and then as often, it is looked whether the thread that reads hangs: the second look
tells, so that what hangs holds a tick up for 50 ms, once."""
IMPORT_S = 1.0
"""The same while readers are made: a slow disk may hold up an import for long."""
LATE_S = 0.75
"""A frame waits so long for sources that do not hang, but take long; and, beyond that, for as long as
who calls them gets no CPU: what is read then is what shows it."""
HANGS = "hangs: no answer"
LATE = "late: not read in time"
FAREWELL_S = 0.3
"""How long the last words may take."""
DESCRIPTORS = 1024
"""Wanted, where the limit allows it."""
RESERVED = 60
"""Descriptors that are left for all but kept files."""
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run(
    config: Dict[str, Any], stdin_fd: int = 0, stdout_fd: int = 1, host: Optional[Host] = None
) -> None:
    """Be the agent of this node until the viewer is gone.

    Args:
        config: `interval_s`, `silence_s`, `match`, `interfaces` (names or globs), `line_rate`
            (name or glob to Mb/s), `paths` (folders of the job), `log` (path), `log_texts` (pairs of
            name and text), `agent_id` (hexadecimal), `version`; each may be left out.
        stdin_fd: where heartbeats come from.
        stdout_fd: where frames go.
        host: whose files; the machine's own when left out.

    Does not return: ends the process.
    """
    host = host or Host(options=options_of(config))
    signal.setitimer(signal.ITIMER_REAL, START_S)
    _be_a_guest(host)
    agent = Agent(host, config, stdin_fd, stdout_fd)
    agent.greet()
    agent.work()


def _be_a_guest(host: Host) -> None:
    """Give way to the job, hold no folder, and allow the descriptors that are wanted."""
    import resource

    os.chdir("/")
    if os.getpriority(os.PRIO_PROCESS, 0) < NICE:
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < DESCRIPTORS:
        soft = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        host.kept_limit = max(0, min(KEPT, soft - RESERVED))


def _now_us() -> int:
    return int(time.monotonic() * 1000000)


class Agent(object):
    """One run: sources, the line to the viewer, and the schedule.

    Args:
        host: with its options.
        config: as in `run`.
        stdin_fd: where heartbeats come from.
        stdout_fd: where frames go.
    """

    def __init__(self, host: Host, config: Dict[str, Any], stdin_fd: int, stdout_fd: int) -> None:
        self.host = host
        self._id = str(config.get("agent_id") or os.urandom(8).hex())
        self._version = config.get("version")
        self._inbox = pipes.Inbox(stdin_fd, _now_us())
        self._outbox = pipes.Outbox(stdout_fd)
        self._guards = [Guard(name, host) for name in catalogue.SOURCES]
        self._offsets = frame.offsets_of({guard.name: guard.rows for guard in self._guards})
        self._widths = {scope: len(catalogue.VALUES[scope]) for scope in catalogue.SCOPES}
        self._governor = Governor()
        self._names = frame.Names(catalogue.SCOPES)
        self._named_at = 0.0
        self._sequence = 0
        self._ending = ""
        self._poll = select.poll()
        self._wake, self._alarm = os.pipe()
        for descriptor in (self._wake, self._alarm):
            os.set_blocking(descriptor, False)
        self._crew = Crew(self._guards, host.board, host.options.interval_s, self._rouse)
        self._poll.register(stdin_fd, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(stdout_fd, 0)

    def greet(self) -> None:
        """Send the greeting."""
        words = facts(self.host, self._version)
        hello = ["hello", catalogue.SCHEMA, self._id, boot_id(self.host), words]
        self._outbox.put(pipes.HELLO, frame.pack(hello))

    def work(self) -> None:
        """Start the clock, and read what it asks for; only the main thread hears signals."""
        signal.set_wakeup_fd(self._alarm)
        for number in ENDING:
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGALRM, self._crew.watch)
        _thread.start_new_thread(self._keep_time, ())
        self._crew.first.work()

    def _keep_time(self) -> None:
        """Run the loop, and end the process with it, whatever its other threads do."""
        status = 1
        try:
            self._loop()
            status = 0
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            self._leave()
            os._exit(status)

    def _loop(self) -> None:
        """Tick on an absolute schedule: what was missed is not made up."""
        self._wait_for(self._crew.prepare(), IMPORT_S, float("inf"))
        interval = self.host.options.interval_s
        start = tick_at = time.monotonic()
        while not self._over():
            if time.monotonic() >= tick_at:
                self._tick(tick_at)
                done = int((time.monotonic() - start) / interval)
                tick_at = start + (done + 1) * interval
            self._wait(tick_at - time.monotonic())

    def _leave(self) -> None:
        """Say why, and stop the children; a source that is busy is left as it is."""
        self._outbox.put(pipes.BYE, frame.pack(["bye", catalogue.SCHEMA, self._ending or "failed"]))
        for guard in self._guards:
            if guard.turn.acquire(blocking=False):
                guard.close()
        until = time.monotonic() + FAREWELL_S
        while self._outbox.waiting and time.monotonic() < until:
            select.select([], [self._outbox.descriptor], [], FAREWELL_S)
            self._outbox.send()
        self._kill_children()

    def _rouse(self) -> None:
        """Wake the clock."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._alarm, b"\0")

    def _over(self) -> bool:
        """Take what the viewer says, and tell whether the agent has to go."""
        self._inbox.hear(_now_us())
        if not self._ending:
            self._outbox.acknowledge(self._inbox.frame)
            silence_s = (_now_us() - self._inbox.heard_us) / 1000000.0
            if self._inbox.ended:
                self._ending = "the viewer closed the line"
            elif silence_s > self.host.options.silence_s:
                self._ending = "no word from the viewer for %g s" % self.host.options.silence_s
            elif self._outbox.broken:
                self._ending = "nobody reads"
        return bool(self._ending)

    def _wait(self, seconds: float) -> None:
        """Sleep until then, or until the viewer speaks, reads on, a round is done, or a signal comes."""
        stdout = self._outbox.descriptor
        self._poll.modify(stdout, select.POLLOUT if self._outbox.waiting else 0)
        for descriptor, events in self._poll.poll(max(0.0, seconds) * 1000):
            if descriptor == self._wake:
                self._hear_signals(os.read(self._wake, 512))
            elif descriptor == stdout and events & (select.POLLERR | select.POLLHUP):
                self._outbox.broken = True
        self._outbox.send()

    def _hear_signals(self, numbers: bytes) -> None:
        for number in ENDING:
            if number in numbers:
                self._ending = self._ending or "signal %s" % number.name

    def _wait_for(self, round_: Round, look_s: float, until: float) -> None:
        """Wait until all sources have answered, but not for those that hang."""
        look_at = time.monotonic() + look_s
        while not (round_.is_done or self._over()):
            now = time.monotonic()
            if now >= until:
                break
            if now >= look_at:
                until += self._crew.relieve(round_)
                look_at = now + look_s
            self._wait(min(look_at, until) - now)
        self._crew.give_up(round_)

    def _tick(self, tick_at: float) -> None:
        board = self.host.board
        stamps = (_now_us(), int(time.time() * 1000000), self._inbox.beat, self._inbox.beat_us)
        board.dropped = self._outbox.dropped
        board.thread_rate_hz = self._governor.rate_hz
        board.lateness_us = stamps[0] - int(tick_at * 1000000)
        round_ = self._crew.read(tick_at)
        self._wait_for(round_, LOOK_S, tick_at + LATE_S)
        rows = self._rows(round_)
        self._governor.observe(time.monotonic(), _own_cpu_ms(rows))
        if self._names.settle(rows) or time.monotonic() - self._named_at >= NAMES_EVERY_S:
            self._named_at = time.monotonic()
            names = self._names.message(catalogue.SCHEMA)
            self._outbox.put(pipes.NAMES, frame.pack(names))
        scopes = catalogue.SCOPES
        message = frame.data(catalogue.SCHEMA, self._sequence, stamps, self._names, scopes, rows)
        self._outbox.put(pipes.DATA, frame.pack(message), self._sequence)
        self._sequence += 1

    def _rows(self, round_: Round) -> frame.Rows:
        readings = dict(round_.rows)  # one that hung may come back any moment
        rows = frame.merge(readings, self._offsets, self._widths)
        missing: Dict[Labels, List[Value]] = {}
        for guard in self._guards:
            told = guard.missing
            if guard.name not in readings:
                told = {guard.name: LATE if guard.name in round_.late else HANGS}
            for subject, reason in told.items():
                missing[frame.clean(subject), frame.clean(reason)] = []
        if self._governor.reason:
            missing["threads.rate", self._governor.reason] = []
        rows["absence"] = missing
        return rows

    def _kill_children(self) -> None:
        for pid in self.host.board.own_pids - {os.getpid()}:
            with contextlib.suppress(OSError):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    os.kill(pid, signal.SIGKILL)


def _own_cpu_ms(rows: frame.Rows) -> Optional[Value]:
    node = rows["node"].get(())
    return node[catalogue.INDEX["node"]["agent_cpu_ms"]] if node else None
