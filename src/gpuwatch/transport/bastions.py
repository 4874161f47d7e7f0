"""Connections to bastions: one for all nodes behind each, more only where one takes no more."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncssh

from gpuwatch.transport.resolution import Route

__all__ = ["Bastions"]

MOST = 8
"""Connections to one bastion."""

Connection = asyncssh.SSHClientConnection


class Bastions:
    """Opens connections to bastions, and shares them.

    Args:
        login: logs in to the last host of a route.
    """

    def __init__(self, login: Callable[[Route], Awaitable[Connection]]) -> None:
        self._login = login
        self._tasks: dict[Route, list[asyncio.Task[Connection]]] = {}

    async def connection(self, route: Route) -> Connection:
        """Return the newest connection to the last host of a route.

        Raises:
            LinkError: as the login did; everyone who waits for it hears of it.
        """
        tasks = self._tasks.setdefault(route, [])
        tasks[:] = [task for task in tasks if not _is_over(task)]
        if not tasks:
            tasks.append(self._begin(route))
        return await asyncio.shield(tasks[-1])

    def is_full(self, route: Route, connection: Connection) -> bool:
        """Take note that a connection takes no more; return whether another one is tried."""
        tasks = self._tasks.get(route, [])
        newest = tasks[-1] if tasks else None
        if newest and newest.done() and not _is_over(newest) and newest.result() is connection:
            if len(tasks) >= MOST:
                return False
            tasks.append(self._begin(route))
        return True

    async def close(self) -> list[Connection]:
        """Stop what is being opened; return what is open, for its owner to close."""
        tasks = [task for all_of_one in self._tasks.values() for task in all_of_one]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return [outcome for outcome in outcomes if isinstance(outcome, Connection)]

    def _begin(self, route: Route) -> "asyncio.Task[Connection]":
        async def login() -> Connection:
            return await self._login(route)

        task = asyncio.create_task(login())
        # Those who waited for it may be gone when it fails.
        task.add_done_callback(_is_over)
        return task


def _is_over(task: "asyncio.Task[Connection]") -> bool:
    if not task.done():
        return False
    return task.cancelled() or task.exception() is not None or task.result().is_closed()
