"""The governor: keeps the agent's own cost under one percent of a core by sampling less."""

from collections import deque
from typing import Deque, Optional, Tuple

RATES_HZ = (5.0, 2.0, 1.0)
LIMIT = 0.009
"""Of one core: above it the rate goes down a step; a tenth below the budget, for it is late to know."""
CALM = 0.006
"""Below it for as long as the governor holds back, the rate goes up a step."""
WINDOW_S = 30.0
WARM_UP_S = 5.0
"""Imports and first readings are no part of what running costs."""
HOLD_S = (60.0, 3600.0)
"""How long a lower rate is kept at least; each time that it had to be lowered again, twice as long."""


class Governor(object):
    """Watches the agent's CPU time and says how many thread samples a second it may take.

    Attributes:
        rate_hz: thread samples a second.
        reason: why the rate is lower than it could be; None while it is not.
    """

    def __init__(self) -> None:
        self.rate_hz = RATES_HZ[0]
        self.reason: Optional[str] = None
        self._step = 0
        self._window: Deque[Tuple[float, float]] = deque()
        self._began: Optional[float] = None
        self._changed = 0.0
        self._hold_s = HOLD_S[0]

    def observe(self, now: float, cpu_ms: Optional[float]) -> None:
        """Take the CPU time that the agent's tree has used so far.

        Args:
            now: seconds, monotonic.
            cpu_ms: None when it could not be read; then nothing changes.
        """
        if self._began is None:
            self._began = now
        if cpu_ms is None or now - self._began < WARM_UP_S:
            return
        self._window.append((now, cpu_ms))
        while len(self._window) > 1 and now - self._window[1][0] >= WINDOW_S:
            self._window.popleft()
        span = now - self._window[0][0]
        used_s = (cpu_ms - self._window[0][1]) / 1000.0
        # What a whole window may cost is often spent before it is over.
        if used_s > LIMIT * max(span, WINDOW_S) and self._step + 1 < len(RATES_HZ):
            self._lower(now, used_s / span)
        elif span < WINDOW_S:
            return
        elif used_s / span < CALM and self._step > 0 and now - self._changed >= self._hold_s:
            self._move(now, self._step - 1)

    def _lower(self, now: float, share: float) -> None:
        if self._changed:
            self._hold_s = min(self._hold_s * 2, HOLD_S[1])
        self._move(now, self._step + 1)
        self.reason = "lowered to %g Hz: agent used %.1f %% of a core" % (self.rate_hz, share * 100)

    def _move(self, now: float, step: int) -> None:
        self._step = step
        self.rate_hz = RATES_HZ[step]
        self._changed = now
        self._window.clear()
        if step == 0:
            self.reason = None
