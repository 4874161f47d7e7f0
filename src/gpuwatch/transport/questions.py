"""What a host may ask a person: passphrases, passwords, one-time codes.

A person is asked only while the terminal is theirs, before a screen takes it. What serves again
(a password, never a code) is kept in memory for the other nodes and for when a link comes back.
"""

import re
from collections.abc import Sequence
from typing import Protocol

from gpuwatch.model.text import sanitize

__all__ = ["Ask", "Questions", "text_of"]


class Ask(Protocol):
    """Puts a question to a person."""

    def __call__(self, prompt: str, *, shown: bool) -> str:
        """Show a prompt, wait for the answer, whose typing may be shown, and return it."""


MAX_PROMPT = 200
MAX_LINES = 12
_PASSWORD = re.compile(r"(?i)password")
_ONCE_ONLY = re.compile(r"(?i)\b(new|retype|one.?time|otp|oath|token|code)\b")
"""What is no password that serves again, though it may be called one."""


class Questions:
    """Puts questions to a person, one at a time, and remembers passwords.

    Attributes:
        ask: None while nobody can be asked.
        codes: how many answers were given that serve once only.
    """

    def __init__(self) -> None:
        self.ask: Ask | None = None
        self.codes = 0
        self._passwords: dict[str, str] = {}

    def may_answer(self, account: str) -> bool:
        """Say whether anything can be answered for an account."""
        return self.ask is not None or account in self._passwords

    def answer(
        self, account: str, prompt: str, text: str, *, shown: bool, again: bool
    ) -> str | None:
        """Return the answer to a host's question; None: nobody can tell, or would.

        This blocks: nothing else is to be drawn or read from the terminal meanwhile.

        Args:
            account: that the answer is for; passwords are kept by it.
            prompt: as the host put it.
            text: with which a person is asked.
            shown: whether what is typed is shown.
            again: whether the last answer was wrong.
        """
        is_password = bool(_PASSWORD.search(prompt)) and not _ONCE_ONLY.search(prompt)
        if is_password and not again and account in self._passwords:
            return self._passwords[account]
        if self.ask is None:
            return None
        told = self.ask(_safe(text), shown=shown)
        if not is_password:
            self.codes += 1
            return told
        if told:
            self._passwords[account] = told
        return told or None

    def passphrase(self, prompt: str) -> str | None:
        """Return what unlocks a key; None: nobody can tell."""
        return None if self.ask is None else self.ask(_safe(prompt), shown=False) or None


def text_of(place: str, instructions: str, prompts: Sequence[tuple[str, bool]], at: int) -> str:
    """Return what a person is shown for one of a host's prompts, and who asks."""
    before = f"{instructions.strip()}\n" if at == 0 and instructions.strip() else ""
    return f"{before}{place}: {prompts[at][0].strip()} "


def _safe(prompt: str) -> str:
    return "\n".join(sanitize(line, MAX_PROMPT) for line in prompt.split("\n")[-MAX_LINES:])
