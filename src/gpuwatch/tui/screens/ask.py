"""Asks for one line of text: a moment of the recording, a note."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

__all__ = ["Ask"]


class Ask(ModalScreen[str | None]):
    """Returns what was typed, or None.

    Args:
        example: what is typed, in grey until something is.
        most: characters that can be typed.
    """

    DEFAULT_CSS = """
    Ask { align: center middle; }
    Ask > Input { width: 60; max-width: 90%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "Leave")]

    def __init__(self, example: str, most: int) -> None:
        super().__init__()
        self._input = Input(placeholder=example, max_length=most)

    def compose(self) -> ComposeResult:
        """Yield one line to type in."""
        yield self._input

    @on(Input.Submitted)
    def _typed(self, message: Input.Submitted) -> None:
        self.dismiss(message.value)
