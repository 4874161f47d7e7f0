"""What one login hears from asyncssh: its steps, the host's key, the host's questions."""

from collections.abc import Callable, Sequence

import asyncssh

from gpuwatch.transport.host_keys import HostKey
from gpuwatch.transport.link import Step
from gpuwatch.transport.questions import Questions, text_of
from gpuwatch.transport.settings import Settings

__all__ = ["Client"]

TRIES = 3
ROUNDS = 10
"""Of questions in one login; a host that goes on asking is not answered."""


class Client(asyncssh.SSHClient):
    """One login.

    Args:
        settings: of the login.
        account: that a password is kept by.
        host_key: judges the key that the host shows.
        questions: answers what the host asks.
        reached: told each step.
        went_on: told when the host has answered, and when a person has: both take their time.

    Attributes:
        unanswered: methods by which the host asks a person, and that nobody answered.
        answered: whether anything was.
        complaint: of the ProxyCommand, if there was one.
    """

    def __init__(
        self,
        settings: Settings,
        account: str,
        host_key: HostKey,
        questions: Questions,
        *,
        reached: Callable[[Step], None],
        went_on: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._account = account
        self.host_key = host_key
        self.unanswered: list[str] = []
        self.answered = False
        self.complaint = ""
        self._questions = questions
        self._reached = reached
        self._went_on = went_on
        self._connection: asyncssh.SSHClientConnection | None = None
        self._asked: dict[str, int] = {}

    @property
    def connected(self) -> bool:
        """Whether there is a connection to something."""
        return self._connection is not None

    @property
    def greeted(self) -> bool:
        """Whether it has said that it speaks SSH."""
        connection = self._connection
        return connection is not None and bool(connection.get_extra_info("server_version"))

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Take the connection."""
        self._connection = conn
        self._went_on()
        self._reached("connect")

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey  # noqa: ARG002 - asyncssh names them
    ) -> bool:  # fmt: skip
        """Judge a key that is not among the trusted ones."""
        return self.host_key.judge(key)

    def validate_host_ca_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey  # noqa: ARG002 - asyncssh names them
    ) -> bool:  # fmt: skip
        """Refuse a certificate of an authority that is not trusted."""
        return self.host_key.judge_authority(key)

    def password_auth_requested(self) -> str | None:
        """Tell the password."""
        return self._answer("password", [("password:", False)], "")[0]

    def kbdint_auth_requested(self) -> str | None:
        """Begin only what may be answered: some hosts call a telephone at once."""
        if self._questions.may_answer(self._account):
            return ""
        self._refuse("keyboard-interactive")
        return None

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]  # noqa: ARG002 - asyncssh names them
    ) -> list[str] | None:  # fmt: skip
        """Answer a round of questions; there may be none in it."""
        answers = self._answer("keyboard-interactive", prompts, instructions)
        given = [answer for answer in answers if answer is not None]
        return given if len(given) == len(answers) else None

    def auth_completed(self) -> None:
        """Take note of the step."""
        self._reached("login")

    def passphrase(self, prompt: str) -> str | None:
        """Ask for the passphrase of a key."""
        text = self._questions.passphrase(prompt)
        self._went_on()
        return text

    def _answer(
        self, method: str, prompts: Sequence[tuple[str, bool]], instructions: str
    ) -> list[str | None]:
        """Return the answers to one round of questions; None where nobody can tell."""
        place = f"{self.settings.user}@{self.settings.host}"
        answers = []
        for at, (prompt, shown) in enumerate(prompts):
            count = self._asked[prompt] = self._asked.get(prompt, 0) + 1
            answers.append(
                self._questions.answer(
                    self._account,
                    prompt,
                    text_of(place, instructions, prompts, at),
                    shown=shown,
                    again=count > 1,
                )
                if count <= TRIES and sum(self._asked.values()) <= ROUNDS
                else None
            )
            self._went_on()
        if None in answers:
            self._refuse(method)
        elif answers:
            self.answered = True
        return answers

    def _refuse(self, method: str) -> None:
        if method not in self.unanswered:
            self.unanswered.append(method)
