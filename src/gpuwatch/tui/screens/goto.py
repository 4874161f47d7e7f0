"""Asks for a moment of the recording."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

__all__ = ["GoTo"]


class GoTo(ModalScreen[str | None]):
    """Returns what was typed, or None."""

    DEFAULT_CSS = """
    GoTo { align: center middle; }
    GoTo > Input { width: 44; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "Leave")]

    def compose(self) -> ComposeResult:
        """Yield one line to type in."""
        yield Input(placeholder="18:03:27, +5m from the start, -30s", max_length=40)

    @on(Input.Submitted)
    def _typed(self, message: Input.Submitted) -> None:
        self.dismiss(message.value)
