"""The agent's loop: keep the schedule, read, send, listen, and be gone when nobody listens."""

import contextlib
import os
import select
import signal
import time
from typing import Any, Dict, Iterator, List, Optional

from gpuwatch.agent import catalogue, frame, pipes
from gpuwatch.agent.facts import boot_id, facts
from gpuwatch.agent.govern import Governor
from gpuwatch.agent.guard import Guard, Rows
from gpuwatch.agent.host import KEPT, Host, options_of
from gpuwatch.agent.metric import Labels, Value

NICE = 5
"""Not 19: a third to half of the samples would be lost exactly when CPUs are short."""
NAMES_EVERY_S = 60.0
WATCH_S = 0.5
"""How often the watchdog looks while sources read."""
FAREWELL_S = 0.3
"""How long the last words may take."""
DESCRIPTORS = 1024
"""Wanted, where the limit allows it."""
RESERVED = 60
"""Descriptors that are left for all but kept files."""
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run(
    config: Dict[str, Any], stdin_fd: int = 0, stdout_fd: int = 1, host: Optional[Host] = None
) -> int:
    """Be the agent of this node until the viewer is gone.

    Args:
        config: `interval_s`, `silence_s`, `match`, `interfaces` (names or globs), `line_rate`
            (name or glob to Mb/s), `log` (path), `log_texts` (pairs of name and text), `agent_id`
            (hexadecimal), `version`; each may be left out.
        stdin_fd: where heartbeats come from.
        stdout_fd: where frames go.
        host: whose files; the machine's own when left out.

    Returns:
        The exit status.
    """
    host = host or Host(options=options_of(config))
    _be_a_guest(host)
    agent = Agent(host, config, stdin_fd, stdout_fd)
    try:
        agent.greet()
        agent.loop()
    finally:
        agent.leave()
    return 0


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
        self._wake = self._listen_for_signals()
        self._poll.register(stdin_fd, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(stdout_fd, 0)

    def greet(self) -> None:
        """Send the greeting, and make all readers: nothing is imported once ticks run."""
        with self._watched():
            words = facts(self.host, self._version)
            hello = ["hello", catalogue.SCHEMA, self._id, boot_id(self.host), words]
            self._outbox.put(pipes.HELLO, frame.pack(hello))
            for guard in self._guards:
                guard.prepare()

    def loop(self) -> None:
        """Tick and sample on an absolute schedule: what was missed is not made up."""
        interval = self.host.options.interval_s
        start = time.monotonic()
        tick_at = sample_at = start
        while not self._over():
            now = time.monotonic()
            if now >= tick_at:
                self._tick(now - tick_at)
                done = int((time.monotonic() - start) / interval)
                tick_at = start + (done + 1) * interval
                sample_at = start + done * interval
            elif now >= sample_at:
                self._sample(now - sample_at)
            period = 1.0 / self._governor.rate_hz
            while sample_at <= time.monotonic():
                sample_at += period
            if tick_at - sample_at < period / 2:
                sample_at = tick_at
            self._wait(min(tick_at, sample_at) - time.monotonic())

    def leave(self) -> None:
        """Say why, and stop the children; a source that will not close does not hold us up."""
        signal.setitimer(signal.ITIMER_REAL, FAREWELL_S * 3, WATCH_S)
        self._ending = self._ending or "failed"
        self._outbox.put(pipes.BYE, frame.pack(["bye", catalogue.SCHEMA, self._ending]))
        for guard in self._guards:
            guard.close()
        until = time.monotonic() + FAREWELL_S
        while self._outbox.waiting and time.monotonic() < until:
            select.select([], [self._outbox.descriptor], [], FAREWELL_S)
            self._outbox.send()
        self._kill_children()
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _listen_for_signals(self) -> int:
        """Let signals wake the poll, and the alarm watch over sources that do not return."""
        wake, alarm = os.pipe()
        for descriptor in (wake, alarm):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(alarm)
        for number in ENDING:
            signal.signal(number, self._asked_to_end)
        signal.signal(signal.SIGALRM, self._watch)
        return wake

    def _asked_to_end(self, number: int, _: Any) -> None:
        self._ending = self._ending or "signal %s" % signal.Signals(number).name

    def _watch(self, *_: Any) -> None:
        """Look, from inside a reading that takes long, whether it should go on.

        The main thread may sit in a system call of a source. Python runs this handler when the
        signal interrupts it; what is raised here ends that call, and only that source fails.
        """
        if self._over():
            self._kill_children()
            os._exit(1)
        for guard in self._guards:
            guard.interrupt(time.monotonic())

    def _over(self) -> bool:
        """Take what the viewer says, and tell whether the agent has to go."""
        self._inbox.hear(_now_us())
        if not self._ending:
            silence_s = (_now_us() - self._inbox.heard_us) / 1000000.0
            if self._inbox.ended:
                self._ending = "the viewer closed the line"
            elif silence_s > self.host.options.silence_s:
                self._ending = "no word from the viewer for %g s" % self.host.options.silence_s
            elif self._outbox.broken:
                self._ending = "nobody reads"
        return bool(self._ending)

    def _wait(self, seconds: float) -> None:
        """Sleep until then, or until the viewer speaks, reads on, or a signal comes."""
        stdout = self._outbox.descriptor
        self._poll.modify(stdout, select.POLLOUT if self._outbox.waiting else 0)
        for descriptor, events in self._poll.poll(max(0.0, seconds) * 1000):
            if descriptor == self._wake:
                os.read(self._wake, 512)
            elif descriptor == stdout and events & (select.POLLERR | select.POLLHUP):
                self._outbox.broken = True
        self._outbox.send()

    def _sample(self, late_s: float) -> None:
        self.host.board.lateness_us = int(late_s * 1000000)
        with self._watched():
            for guard in self._guards:
                guard.sample()

    def _tick(self, late_s: float) -> None:
        board = self.host.board
        stamps = (_now_us(), int(time.time() * 1000000), self._inbox.beat, self._inbox.beat_us)
        board.dropped = self._outbox.dropped
        board.thread_rate_hz = self._governor.rate_hz
        self._sample(late_s)
        with self._watched():
            readings = {guard.name: guard.read() for guard in self._guards}
        rows = self._rows(readings)
        self._governor.observe(time.monotonic(), _own_cpu_ms(rows))
        if self._names.settle(rows) or time.monotonic() - self._named_at >= NAMES_EVERY_S:
            self._named_at = time.monotonic()
            names = self._names.message(catalogue.SCHEMA)
            self._outbox.put(pipes.NAMES, frame.pack(names))
        scopes = catalogue.SCOPES
        message = frame.data(catalogue.SCHEMA, self._sequence, stamps, self._names, scopes, rows)
        self._sequence += 1
        self._outbox.put(pipes.DATA, frame.pack(message))

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Keep the watchdog awake while sources run."""
        signal.setitimer(signal.ITIMER_REAL, WATCH_S, WATCH_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _rows(self, readings: Dict[str, Rows]) -> frame.Rows:
        rows = frame.merge(readings, self._offsets, self._widths)
        missing: Dict[Labels, List[Value]] = {}
        for guard in self._guards:
            for subject, reason in guard.missing.items():
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
