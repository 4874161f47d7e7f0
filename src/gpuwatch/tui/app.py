"""The app: one engine as a worker, one scene shown, every command a row of `commands`."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from gpuwatch.engine import run
from gpuwatch.errors import GpuwatchError
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.text import sanitize
from gpuwatch.model.view import NodeView
from gpuwatch.tui.commands import COMMANDS, Command
from gpuwatch.tui.filter import Filter, read
from gpuwatch.tui.paint.answer import said
from gpuwatch.tui.paint.numbers import clock, duration
from gpuwatch.tui.paint.order import worst_first
from gpuwatch.tui.paint.spans import Line, Span
from gpuwatch.tui.past import Past
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.screens.overview import Overview
from gpuwatch.tui.screens.page import Page
from gpuwatch.tui.screens.pages import PAGES
from gpuwatch.tui.session import Session
from gpuwatch.tui.sink import ScreenSink
from gpuwatch.tui.steering import Steering
from gpuwatch.tui.theme import Palette, bundled, load
from gpuwatch.tui.transport import Transport

__all__ = ["Watch"]

DEFAULT, COLOURLESS, FEW_COLOURS = "dark", "mono", "sixteen"
"""Themes to start with, by what the terminal can."""
LONGEST_PASTE = 200
"""Characters of what is pasted: no line that is asked for is longer."""


class Judged(Message):
    """A tick was judged. A newer one replaces one that still waits."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene

    def can_replace(self, message: Message) -> bool:
        """Let the newest scene be the only one that is painted."""
        return isinstance(message, Judged)


class Watch(Steering):
    """Shows one session. It knows no replay: only that some feeds can be steered."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(c.key, c.action, c.name, show=False, id=c.action) for c in COMMANDS
    ]
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, session: Session) -> None:
        # Textual turns colours into greys where none are wanted, unless they are the terminal's own.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.title = sanitize(session.title, 80)
        self.session = session
        self.scene: Scene | None = None
        self.past = Past(session.interval_s, session.cost)
        self.reordered = False
        self._filter: Filter | None = None
        self._misread: str | None = None
        self._sifted: tuple[Scene, Filter, Sequence[NodeView]] | None = None
        self._chosen: str | None = None
        self._latest: Scene | None = None
        self._held = False
        self._ended: str | None = None
        self._palettes, self._problems = load((bundled(), *session.folders), ascii=session.ascii)
        for name in list(self.available_themes):
            self.unregister_theme(name)
        for palette in self._palettes.values():
            self.register_theme(palette.theme)
        self.theme = self._first_theme()

    @property
    def palette(self) -> Palette:
        """What roles look like now."""
        return self._palettes[self.theme]

    @property
    def commands(self) -> list[Command]:
        """The commands that this session has."""
        return [c for c in COMMANDS if self._has(c)]

    def _has(self, command: Command) -> bool:
        if command.when == "replay":
            return self.session.transport is not None
        live = {"note": self.session.note, "retry": self.session.retry}
        return command.when == "any" or live[command.action] is not None

    async def on_event(self, event: events.Event) -> None:
        """Let only what can be printed be pasted: Textual draws what is typed as it came."""
        if isinstance(event, events.Paste) and not event.text.isprintable():
            line = next(iter(event.text.splitlines()), "")
            event = events.Paste(sanitize(line, LONGEST_PASTE))
        await super().on_event(event)

    def get_default_screen(self) -> Screen[None]:
        """Return the overview."""
        return Overview(self)

    def on_mount(self) -> None:
        """Start the engine, and tell which themes were left out."""
        # After `fg` the terminal holds what the shell wrote.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self.call_after_refresh(
            lambda: self.run_worker(self._run(), name="engine", exit_on_error=False)
        )
        if self.session.whole is not None:
            self.run_worker(self.past.read(self.session.whole()), name="past", exit_on_error=False)
        for problem in self._problems:
            self.notify(f"theme left out: {sanitize(problem)}", severity="warning", markup=False)

    async def _run(self) -> None:
        """Run the engine over a live feed, or over each pass of a replay, with a new cluster."""
        session, deck = self.session, self.session.transport
        hidden = (lambda: False) if deck is None else (lambda: deck.running_up)
        sinks = (*session.sinks, ScreenSink(session.title, self.past, self._take, hidden))
        if not isinstance(session.feed, Transport):
            cluster = Cluster(session.nodes, session.interval_s, session.expressions)
            await run(session.feed, cluster, session.judge, sinks)
            return
        while not session.feed.closed:
            cluster = Cluster(session.nodes, session.interval_s, session.expressions)
            await run(session.feed.play(), cluster, session.judge, sinks)

    def on_unmount(self) -> None:
        """Let a replay end."""
        if self.session.transport is not None:
            self.session.transport.close()

    def _take(self, scene: Scene) -> None:
        self.post_message(Judged(scene))

    @on(Judged)
    def _judged(self, message: Judged) -> None:
        self._latest = message.scene
        if not self._held:
            self.scene = message.scene
        self.repaint()

    @on(Worker.StateChanged)
    def _engine_stopped(self, event: Worker.StateChanged) -> None:
        if event.worker.name == "past" and event.state == WorkerState.ERROR:
            told = f"the recording cannot be read through: {sanitize(str(event.worker.error), 120)}"
            self.notify(told, severity="warning", markup=False)
        if event.worker.name != "engine":
            return
        if event.state == WorkerState.ERROR:
            wrong = event.worker.error
            if isinstance(wrong, GpuwatchError) and self.scene is None:
                self.exit()  # it could not begin: whoever opened the screen says why
            self._ended = f"gpuwatch stopped: {type(wrong).__name__}: {sanitize(str(wrong), 160)}"
        elif event.state == WorkerState.SUCCESS:
            self._ended = "nothing more comes"
        self.repaint()

    def repaint(self) -> None:
        """Paint what is shown anew, also below what is asked for."""
        page = next((s for s in reversed(self.screen_stack) if isinstance(s, Page)), None)
        if page is not None:
            page.repaint()

    def mode(self) -> Line:
        """Return what the screen itself does, for the header."""
        if self._misread is not None:
            return ((f"filter: {self._misread} ", "warn"), *self._mode())
        if self._filter is not None and self.scene is not None:
            every = len(self.scene.view.nodes)
            told: Span = (f"filter {sanitize(self._filter.text, 40)}: ", "key")
            return (told, (f"{len(self.nodes())} of {every}  ", "strong"), *self._mode())
        return self._mode()

    def _mode(self) -> Line:
        if self._ended is not None:
            crashed = self._ended.startswith("gpuwatch")
            return ((f" {self._ended} ", "bad" if crashed else "dim"),)
        if self.session.transport is not None:
            return ((self.session.played, "title"),)
        if self._held and self._latest is not None and self.scene is not None:
            behind = duration(self._latest.view.now_us - self.scene.view.now_us)
            return ((f" paused, {behind} behind ", "warn"),)
        if self.session.recording is None:
            return (("live, not recorded", "dim"),)
        said = self.session.recording()
        words = sanitize(said.words, 60)
        return ((f" {words} ", "bad"),) if said.ill else (("● ", "bad"), (words, "dim"))

    def _first_theme(self) -> str:
        wanted = self.session.theme
        if wanted is None:
            wanted = DEFAULT
            if self.no_color:
                wanted = COLOURLESS
            elif self.console.color_system == "standard":
                wanted = FEW_COLOURS
        return wanted if wanted in self._palettes else next(iter(self._palettes))

    def watch_theme(self, _: str) -> None:
        """Paint in the new theme."""
        if self.is_running:
            self.repaint()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the palette's entries: the rows of `commands`."""
        page = screen.NAME if isinstance(screen, Page) else ""
        for command in (c for c in self.commands if c.page in ("", page)):
            yield SystemCommand(
                command.name.capitalize(), command.help, self._runner(command.action)
            )

    def _runner(self, action: str) -> Callable[[], Awaitable[None]]:
        async def act() -> None:
            await self.run_action(action)

        return act

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out what only a replay, or only a live session, can do."""
        del parameters
        lacking = {c.action.partition("(")[0] for c in COMMANDS if not self._has(c)}
        return action not in lacking

    def nodes(self) -> Sequence[NodeView]:
        """Return the nodes that the filter shows, as the job names them; all where none does."""
        scene, sieve = self.scene, self._filter
        if scene is None:
            return ()
        if sieve is None:
            return scene.view.nodes
        if self._sifted is None or self._sifted[0] is not scene or self._sifted[1] is not sieve:
            shown = [n for n in scene.view.nodes if sieve.shows(scene, n)]
            self._sifted = (scene, sieve, shown)
        return self._sifted[2]

    def sift(self, text: str) -> None:
        """Show only the nodes that a filter shows; one that is not understood shows all."""
        self._misread = None
        try:
            self._filter = read(text)
        except ValueError as wrong:
            self._filter, self._misread = None, sanitize(str(wrong), 120)
        self.repaint()

    def choose(self, node: str) -> None:
        """Put the cursor on a node."""
        self._chosen = node
        self.repaint()

    def chosen_node(self) -> str | None:
        """Return the cursor's node: until one was chosen, the first to blame."""
        if self.scene is None:
            return None
        nodes = self.nodes()
        if self._chosen not in {n.name for n in nodes}:
            return worst_first(self.scene, nodes)[0].name if nodes else None
        return self._chosen

    def action_move(self, down: int, right: int) -> None:
        """Choose another node, or scroll."""
        if isinstance(self.screen, Page):
            self.screen.move(down, right)

    def action_leaf(self, step: int) -> None:
        """Go by a screenful."""
        if isinstance(self.screen, Page):
            self.screen.move(step * max(1, self.screen.body.size.height - 1), 0)

    def action_page(self, name: str) -> None:
        """Show a page; the same key again goes back."""
        if type(self.screen) is PAGES[name]:
            self.pop_screen()
        elif isinstance(self.screen, Overview):
            self.push_screen(PAGES[name](self))
        elif isinstance(self.screen, Page):
            self.switch_screen(PAGES[name](self))

    async def action_back(self) -> None:
        """Go back to the overview; there, show all nodes again."""
        if isinstance(self.screen, Overview):
            self.screen.clear_filter()
        elif isinstance(self.screen, Page):
            self.pop_screen()

    def action_filter(self) -> None:
        """Let a filter be typed below the overview."""
        if isinstance(self.screen, Page) and not isinstance(self.screen, Overview):
            self.pop_screen()
        if isinstance(self.screen, Overview):
            self.screen.ask_filter()

    def action_order(self) -> None:
        """Put nodes in the other order."""
        self.reordered = not self.reordered
        self.repaint()

    def action_next_theme(self) -> None:
        """Change to the next theme."""
        names = list(self._palettes)
        self.theme = names[(names.index(self.theme) + 1) % len(names)]

    def action_pause(self) -> None:
        """Stop and go: a replay itself, of a live feed only the display."""
        deck = self.session.transport
        if deck is not None:
            deck.paused = not deck.paused
        else:
            self._held = not self._held
            if not self._held:
                self.scene = self._latest
        self.repaint()

    def action_retry(self) -> None:
        """Try nodes again that cannot be reached: a person has done something about it."""
        if self.session.retry is None:
            return
        count = self.session.retry()
        nodes = "all nodes stream" if not count else f"trying {count} node{'s'[: count > 1]} again"
        self.notify(nodes)

    def action_note(self) -> None:
        """Ask for a note, and put it among the events."""
        from gpuwatch.tui.screens.ask import Ask

        if self.session.note is not None:
            self.push_screen(Ask("a note for this moment", 200), self._note)

    def _note(self, text: str | None) -> None:
        if text and text.strip() and self.session.note is not None:
            self.session.note(sanitize(text.strip(), 200))

    def action_copy(self) -> None:
        """Put the answer into the clipboard of the terminal, which may ask or refuse."""
        if self.scene is not None:
            self.copy_to_clipboard("\n".join(said(self.scene)))
            self.notify("copied the answer", markup=False)

    async def action_save(self, suffix: str) -> None:
        """Save what is on the screen, in the folder that gpuwatch was started in."""
        from gpuwatch.tui.saving import save, without_font

        if not isinstance(self.screen, Page):
            return
        content = self.screen.text()
        if suffix == "svg":
            content = without_font(self.export_screenshot(title=self.title))
        at = "" if self.scene is None else clock(self.scene.view.wall_us, pattern="-%Y%m%dT%H%M%S")
        try:
            path = await asyncio.to_thread(save, Path(), f"{self.title}{at}", suffix, content)
        except OSError as wrong:
            self.notify(f"not saved: {wrong.strerror}", severity="warning", markup=False)
        else:
            self.notify(f"saved as {path}", markup=False)
