"""A ProxyCommand ends with its connection, and so does what it started."""

import asyncio
import time
from pathlib import Path

from gpuwatch.transport.proxy import Proxy


async def said(proxy: Proxy) -> int:
    """Return the process id that the command wrote."""
    proxy.socket.setblocking(False)
    return int(await asyncio.get_running_loop().sock_recv(proxy.socket, 64))


async def ends(pid: int) -> bool:
    """Tell whether a process ends within ten seconds, whether or not its parent takes note."""
    deadline = time.monotonic() + 10
    while runs(pid) and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody tells of the end of another's child
        await asyncio.sleep(0.01)
    return not runs(pid)


def runs(pid: int) -> bool:
    """Tell whether it is there, and no zombie."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def test_what_a_command_left_behind_ends_with_it() -> None:
    proxy = await Proxy.start("sh -c 'sleep 300 & echo $!'")
    left = await said(proxy)
    assert runs(left)
    await proxy.end()
    assert await ends(left)


async def test_a_command_that_stays_is_killed_even_if_nobody_waits_for_its_end() -> None:
    proxy = await Proxy.start("sh -c 'echo $$; exec sleep 300 0<&- 1>&-'")
    stays = await said(proxy)
    assert runs(stays)
    ending = asyncio.create_task(proxy.end())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait({ending})
    assert ending.cancelled()
    assert not runs(stays)
