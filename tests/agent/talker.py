"""One end of TCP connections, told what to do line by line on stdin; says `done` after each.

listen ADDRESS | open ADDRESS PORT | accept | send N | read N | close
"""

import socket
import sys


def main() -> None:
    """Obey, on the newest connection."""
    listener = socket.socket()
    ends: list[socket.socket] = []
    for line in sys.stdin:
        word, *rest = line.split()
        said = "done"
        if word == "listen":
            family = socket.AF_INET6 if ":" in rest[0] else socket.AF_INET
            listener = socket.create_server((rest[0], 0), family=family, backlog=64)
            said = str(listener.getsockname()[1])
        elif word == "open":
            ends.append(socket.create_connection((rest[0], int(rest[1]))))
        elif word == "accept":
            ends.append(listener.accept()[0])
        elif word == "send":
            ends[-1].sendall(bytes(int(rest[0])))
        elif word == "read":
            left = int(rest[0])
            while left:
                left -= len(ends[-1].recv(min(left, 65536)))
        elif word == "close":
            ends.pop().close()
        print(said, flush=True)


if __name__ == "__main__":
    main()
