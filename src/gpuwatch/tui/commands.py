"""Commands, each declared once: keys, palette, footer and help are made from these rows."""

from typing import Literal, NamedTuple

__all__ = ["COMMANDS", "Command"]


class Command(NamedTuple):
    """One row.

    Attributes:
        key: as Textual names keys; several parted by commas.
        shown: the key as people read it.
        name: a word or two, for the footer and the palette.
        help: one sentence.
        action: of the app.
        when: `any`, or only in `replay`.
        foot: whether the footer shows it.
    """

    key: str
    shown: str
    name: str
    help: str
    action: str
    when: Literal["any", "replay"] = "any"
    foot: bool = False


COMMANDS = (
    Command("up", "↑", "node above", "Choose the node above, or scroll.", "move(-1)"),
    Command("down", "↓", "node below", "Choose the node below, or scroll.", "move(1)"),
    Command("pageup", "pgup", "page up", "Go a screenful up.", "leaf(-1)"),
    Command("pagedown", "pgdn", "page down", "Go a screenful down.", "leaf(1)"),
    Command("enter", "↵", "open", "Show all that is known of the chosen node.", "detail", foot=True),
    Command("w", "w", "why", "Show the facts for and against each verdict.", "page('why')", foot=True),
    Command("e", "e", "events", "Show what happened: links, faults, verdicts.", "page('events')", foot=True),
    Command("space", "space", "pause", "Freeze the screen; data still come in.", "pause", foot=True),
    Command("t", "t", "theme", "Change to the next theme.", "next_theme"),
    Command("ctrl+p", "^p", "commands", "Find a command by its name.", "command_palette"),
    Command("question_mark", "?", "help", "Show the keys, the letters and the words.", "page('help')", foot=True),
    Command("escape", "esc", "back", "Go back to the overview.", "back"),
    Command("ctrl+z", "^z", "to the shell", "Stop all here until `fg`; the nodes' agents end after 30 s.", "suspend_process"),
    Command("q,ctrl+c", "q", "quit", "Leave; the nodes' agents end by themselves.", "quit", foot=True),
    Command("plus", "+", "faster", "Play twice as fast.", "speed(2)", "replay", foot=True),
    Command("minus", "-", "slower", "Play half as fast.", "speed(0.5)", "replay", foot=True),
    Command("left_square_bracket", "[", "10 s back", "Go 10 seconds back.", "shift(-10)", "replay"),
    Command("right_square_bracket", "]", "10 s on", "Go 10 seconds on.", "shift(10)", "replay"),
    Command("left_curly_bracket", "{", "1 min back", "Go a minute back.", "shift(-60)", "replay"),
    Command("right_curly_bracket", "}", "1 min on", "Go a minute on.", "shift(60)", "replay"),
    Command("full_stop", ".", "step", "Stop, and go one tick on.", "step", "replay"),
    Command("home", "home", "to start", "Go to the start of the recording.", "edge(0)", "replay"),
    Command("end", "end", "to end", "Go to the end of the recording.", "edge(1)", "replay"),
    Command("n", "n", "next change", "Go to where the verdict changes next.", "change(1)", "replay", foot=True),
    Command("N", "N", "last change", "Go to where the verdict changed before.", "change(-1)", "replay"),
    Command("j", "j", "go to", "Go to a time of day, or +5m from the start.", "go_to", "replay", foot=True),
)  # fmt: skip
