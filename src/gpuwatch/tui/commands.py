"""Commands, each declared once: keys, palette, footer and help are made from these rows."""

from typing import Literal, NamedTuple

__all__ = ["COMMANDS", "Command"]


class Command(NamedTuple):
    """One row.

    Attributes:
        key: as Textual names keys; several parted by commas.
        shown: the keys as people read them; the footer has room for the first.
        name: a word or two, for the footer and the palette.
        help: one sentence.
        action: of the app.
        when: `any`, or only `live` or in `replay`.
        foot: whether the footer shows it: where there is `room`, or `always`, at its end.
        page: the only page that has it; empty: all have.
    """

    key: str
    shown: str
    name: str
    help: str
    action: str
    when: Literal["any", "live", "replay"] = "any"
    foot: Literal["", "room", "always"] = ""
    page: str = ""


END = 1_000_000
"""Lines or nodes: more than there are."""

COMMANDS = (
    Command("up,k", "↑ k", "up", "Choose the node above, or scroll.", "move(-1, 0)"),
    Command("down,j", "↓ j", "down", "Choose the node below, or scroll.", "move(1, 0)"),
    Command("left,h", "← h", "left", "Choose the node to the left, or go back in time.", "move(0, -1)"),
    Command("right,l", "→ l", "right", "Choose the node to the right, or go on in time.", "move(0, 1)"),
    Command("pageup,ctrl+b", "pgup", "page up", "Go a screenful up.", "leaf(-1)"),
    Command("pagedown,ctrl+f", "pgdn", "page down", "Go a screenful down.", "leaf(1)"),
    Command("g", "g", "top", "Choose the first node, or scroll to the top.", f"move({-END}, 0)"),
    Command("G", "G", "bottom", "Choose the last node, or scroll to the end.", f"move({END}, 0)"),
    Command("z", "z", "closer", "Look at a shorter time, in finer steps.", "screen.zoom(-1)", foot="room", page="timeline"),
    Command("Z", "Z", "wider", "Look at a longer time, in coarser steps.", "screen.zoom(1)", foot="room", page="timeline"),
    Command("p", "p", "go there", "Play from where the cursor stands.", "screen.go_there", "replay", foot="room", page="timeline"),
    Command("enter", "↵", "open", "Show all that is known of the chosen node.", "page('detail')", foot="room"),
    Command("w", "w", "why", "Show the facts for and against each verdict.", "page('why')", foot="room"),
    Command("t", "t", "timeline", "Show what nodes and ranks waited for, and when.", "page('timeline')", foot="room"),
    Command("dollar_sign", "$", "ledger", "Show what the GPU time went into, and its cost.", "page('ledger')", foot="room"),
    Command("e", "e", "events", "Show what happened: links, faults, notes.", "page('events')", foot="room"),
    Command("slash,f3,f4", "/ F4", "filter", "Show only some nodes: by name, state or a number.", "filter", foot="room"),
    Command("o", "o", "order", "Put the worst nodes first, or all in their order.", "order"),
    Command("space", "space", "pause", "Freeze the screen; data still come in.", "pause", foot="room"),
    Command("m", "m", "note", "Write a note into the recording, at this moment.", "note", "live"),
    Command("R", "R", "retry", "Try lost and refused nodes again, now.", "retry", "live"),
    Command("s", "s", "save", "Save what is on the screen as a picture (SVG).", "save('svg')"),
    Command("S", "S", "save text", "Save what is on the screen as text.", "save('txt')"),
    Command("y", "y", "copy", "Copy the answer to the terminal's clipboard.", "copy"),
    Command("T", "T", "theme", "Change to the next theme.", "next_theme"),
    Command("ctrl+p", "^p", "commands", "Find a command by its name.", "command_palette"),
    Command("question_mark,f1", "? F1", "help", "Show the keys, the letters and the words.", "page('help')", foot="always"),
    Command("escape", "esc", "back", "Go back to the overview; there, show all nodes.", "back"),
    Command("ctrl+z", "^z", "to the shell", "Stop all until `fg`; agents end after 30 s.", "suspend_process"),
    Command("q,f10,ctrl+c", "q F10", "quit", "Leave; the nodes' agents end by themselves.", "quit", foot="always"),
    Command("plus", "+", "faster", "Play twice as fast.", "speed(2)", "replay", foot="room"),
    Command("minus", "-", "slower", "Play half as fast.", "speed(0.5)", "replay", foot="room"),
    Command("left_square_bracket", "[", "10 s back", "Go 10 seconds back.", "shift(-10)", "replay"),
    Command("right_square_bracket", "]", "10 s on", "Go 10 seconds on.", "shift(10)", "replay"),
    Command("left_curly_bracket", "{", "1 min back", "Go a minute back.", "shift(-60)", "replay"),
    Command("right_curly_bracket", "}", "1 min on", "Go a minute on.", "shift(60)", "replay"),
    Command("full_stop", ".", "step", "Stop, and go one tick on.", "step", "replay"),
    Command("home", "home", "to start", "Go to the start of the recording.", "edge(0)", "replay"),
    Command("end", "end", "to end", "Go to the end of the recording.", "edge(1)", "replay"),
    Command("n", "n", "next change", "Go to where the verdict changes next.", "change(1)", "replay", foot="room"),
    Command("N", "N", "last change", "Go to where the verdict changed before.", "change(-1)", "replay"),
    Command("colon", ":", "go to", "Go to a time of day, or +5m from the start.", "go_to", "replay", foot="room"),
)  # fmt: skip
