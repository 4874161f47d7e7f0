"""The app: one engine as a worker, one scene shown, every command a row of `commands`."""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from gpuwatch.engine import run
from gpuwatch.errors import GpuwatchError
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.text import sanitize
from gpuwatch.recording.moment import moment
from gpuwatch.tui.commands import COMMANDS, Command
from gpuwatch.tui.paint.numbers import duration
from gpuwatch.tui.paint.spans import Line
from gpuwatch.tui.paint.table import order
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.screens.overview import Overview
from gpuwatch.tui.screens.page import Page
from gpuwatch.tui.screens.pages import PAGES
from gpuwatch.tui.session import Session
from gpuwatch.tui.sink import ScreenSink
from gpuwatch.tui.theme import Palette, bundled, load
from gpuwatch.tui.transport import Transport

__all__ = ["Watch"]

DEFAULT, COLOURLESS, FEW_COLOURS = "dark", "mono", "sixteen"
"""Themes to start with, by what the terminal can."""
SLOWEST, FASTEST = 0.25, 64.0
"""How a replay may play, as multiples of real time."""


class Judged(Message):
    """A tick was judged. A newer one replaces one that still waits."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene

    def can_replace(self, message: Message) -> bool:
        """Let the newest scene be the only one that is painted."""
        return isinstance(message, Judged)


class Watch(App[int]):
    """Shows one session. It knows no replay: only that some feeds can be steered."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(c.key, c.action, c.name, show=False, id=c.action) for c in COMMANDS
    ]
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.title = sanitize(session.title, 80)
        self.session = session
        self.scene: Scene | None = None
        self._chosen: str | None = None
        self._latest: Scene | None = None
        self._held = False
        self._ended: str | None = None
        self._changes: Sequence[int] | None = None
        self._palettes, self._problems = load((bundled(), *session.folders))
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
        return [c for c in COMMANDS if c.when == "any" or self.session.transport is not None]

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
        for problem in self._problems:
            self.notify(f"theme left out: {sanitize(problem)}", severity="warning", markup=False)

    async def _run(self) -> None:
        """Run the engine over a live feed, or over each pass of a replay, with a new cluster."""
        session, deck = self.session, self.session.transport
        hidden = (lambda: False) if deck is None else (lambda: deck.running_up)
        sinks = (*session.sinks, ScreenSink(session.title, self._take, hidden))
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
        """Paint what is shown anew."""
        if isinstance(self.screen, Page):
            self.screen.repaint()

    def mode(self) -> Line:
        """Return what the screen itself does, for the header."""
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
        return (("● ", "bad"), (sanitize(self.session.recording(), 40), "dim"))

    def _first_theme(self) -> str:
        wanted = self.session.theme
        if wanted is None:
            wanted = DEFAULT
            if "NO_COLOR" in os.environ:
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
        del screen
        for command in self.commands:
            yield SystemCommand(
                command.name.capitalize(), command.help, self._runner(command.action)
            )

    def _runner(self, action: str) -> Callable[[], Awaitable[None]]:
        async def act() -> None:
            await self.run_action(action)

        return act

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out what only a replay can do."""
        del parameters
        names = {c.action.partition("(")[0] for c in COMMANDS if c.when == "replay"}
        return action not in names or self.session.transport is not None

    def choose(self, node: str) -> None:
        """Put the cursor on a node."""
        self._chosen = node
        self.repaint()

    def chosen_node(self) -> str | None:
        """Return the cursor's node: until one was chosen, the first to blame."""
        if self.scene is None:
            return None
        nodes = order(self.scene)
        if self._chosen not in {n.name for n in nodes}:
            return nodes[0].name if nodes else None
        return self._chosen

    def action_move(self, step: int) -> None:
        """Choose another node, or scroll."""
        if not isinstance(self.screen, Overview):
            if isinstance(self.screen, Page):
                self.screen.move(step)
            return
        names = self.screen.names()
        chosen = self.chosen_node()
        if chosen in names:
            self.choose(names[max(0, min(len(names) - 1, names.index(chosen) + step))])

    def action_leaf(self, step: int) -> None:
        """Scroll by a screenful."""
        if isinstance(self.screen, Page):
            self.action_move(step * max(1, self.screen.body.size.height - 1))

    def action_detail(self) -> None:
        """Show the chosen node."""
        self.action_page("detail")

    def action_page(self, name: str) -> None:
        """Show a page; the same key again goes back."""
        if type(self.screen) is PAGES[name]:
            self.pop_screen()
        elif isinstance(self.screen, Overview):
            self.push_screen(PAGES[name](self))
        elif isinstance(self.screen, Page):
            self.switch_screen(PAGES[name](self))

    async def action_back(self) -> None:
        """Go back to the overview."""
        if isinstance(self.screen, Page) and not isinstance(self.screen, Overview):
            self.pop_screen()

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

    def action_speed(self, factor: float) -> None:
        """Play faster or slower."""
        deck = self.session.transport
        if deck is not None:
            deck.speed = max(SLOWEST, min(FASTEST, (deck.speed or 1.0) * factor))
            self.repaint()

    def action_shift(self, seconds: float) -> None:
        """Go some seconds on or back."""
        if self.scene is not None:
            self._seek(self.scene.view.wall_us + round(seconds * 1e6))

    def action_edge(self, end: int) -> None:
        """Go to the start (0) or the end (1)."""
        deck = self.session.transport
        if deck is not None:
            self._seek(deck.span[end])

    def action_step(self) -> None:
        """Stop, and go one tick on."""
        deck = self.session.transport
        if deck is not None:
            deck.step()
            self.repaint()

    async def action_change(self, way: int) -> None:
        """Go to the next or last change of the job's verdict."""
        if self.scene is None or self.session.changes is None:
            return
        if self._changes is None:
            self._changes = await self.session.changes()
        now = self.scene.view.wall_us
        later = [c for c in self._changes if c > now]
        before = [c for c in self._changes if c < now]
        if way > 0 and later:
            self._seek(later[0])
        elif way < 0 and before:
            self._seek(before[-1])
        else:
            self.notify("no change that way", markup=False)

    def action_go_to(self) -> None:
        """Ask for a moment, and go there."""
        from gpuwatch.tui.screens.goto import GoTo

        self.push_screen(GoTo(), self._go)

    def _go(self, text: str | None) -> None:
        deck = self.session.transport
        if not text or deck is None:
            return
        there = moment(text, *deck.span)
        if there is None:
            self.notify("no time: write 18:03:27, +5m or -30s", severity="warning", markup=False)
        else:
            self._seek(there)

    def _seek(self, wall_us: int) -> None:
        """Go to a moment; a replay that stands still shows the first tick there."""
        deck = self.session.transport
        if deck is not None:
            deck.seek(max(deck.span[0], min(deck.span[1], wall_us)))
            if deck.paused:
                deck.step()
