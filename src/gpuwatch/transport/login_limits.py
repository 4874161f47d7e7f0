"""How many logins are under way at once, and which are not even tried."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack, asynccontextmanager

from gpuwatch.transport.link import LinkError

__all__ = ["Denials", "Gates"]

LOGINS_A_HOST = 8
"""At once: sshd's MaxStartups begins to refuse at 10."""
LOGINS = 32
JITTER_S = 0.05
HELD_S = 300.0
"""At most: fail2ban locks out who fails five times in ten minutes."""
HELD_FIRST_S = 15.0
"""The same where nobody was let in before: one denial at a bastion is all nodes' behind it."""


class Gates:
    """Lets few logins through at once: to one sshd, through one bastion, and in all."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(LOGINS)
        self._places: defaultdict[Hashable, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(LOGINS_A_HOST)
        )
        self._inside = 0

    @asynccontextmanager
    async def through(self, *places: Hashable) -> AsyncIterator[None]:
        """Wait until a login to these places may begin, and not in step with others.

        Args:
            places: the sshd, then the bastion whose connection is used, if any.
        """
        async with AsyncExitStack() as stack:
            for place in dict.fromkeys(places):
                await stack.enter_async_context(self._places[place])
            await stack.enter_async_context(self._all)
            self._inside += 1
            try:
                if self._inside > 1:
                    await asyncio.sleep(random.uniform(0, JITTER_S))  # noqa: S311 - no secret
                yield
            finally:
                self._inside -= 1


class Denials:
    """Remembers who was denied: that is not tried again soon with the same keys.

    An agent that is gone or a certificate that is over would else be a storm of failed logins,
    and some hosts lock out those who fail often.
    """

    def __init__(self) -> None:
        self._let_in: set[Hashable] = set()
        self._denied: dict[Hashable, tuple[float, bytes, LinkError]] = {}

    def check(self, who: Hashable, state: bytes) -> None:
        """Let a login go on if it may come out otherwise than the last.

        Args:
            who: logs in to what.
            state: of the keys that it offers.

        Raises:
            LinkError: as the last time.
        """
        until_s, denied_state, error = self._denied.get(who, (0.0, b"", None))
        if error and state == denied_state and asyncio.get_running_loop().time() < until_s:
            raise LinkError(error.what, error.step, error.hint, heals=error.heals)

    def forget(self) -> None:
        """Let all be tried again: a person has done something about it."""
        self._denied.clear()

    def welcome(self, who: Hashable) -> None:
        """Take note of a login that went well."""
        self._let_in.add(who)
        self._denied.pop(who, None)

    def deny(self, who: Hashable, state: bytes, error: LinkError) -> None:
        """Take note of a login that was denied."""
        longest_s = HELD_S if who in self._let_in else HELD_FIRST_S
        pause_s = longest_s * random.uniform(0.6, 1)  # noqa: S311 - no secret
        self._denied[who] = asyncio.get_running_loop().time() + pause_s, state, error
