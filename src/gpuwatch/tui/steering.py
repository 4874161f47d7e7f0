"""What only a replay can do: play faster or slower, and go to another moment."""

from textual.app import App

from gpuwatch.recording.moment import moment
from gpuwatch.tui.past import Past
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.session import Session

__all__ = ["Steering"]

SLOWEST, FASTEST = 0.25, 64.0
"""How a replay may play, as multiples of real time."""


class Steering(App[int]):
    """The part of the app that steers a transport; without one, nothing happens."""

    session: Session
    scene: Scene | None
    past: Past

    def repaint(self) -> None:
        """Paint what is shown anew."""
        raise NotImplementedError

    def action_speed(self, factor: float) -> None:
        """Play faster or slower."""
        deck = self.session.transport
        if deck is not None:
            deck.speed = max(SLOWEST, min(FASTEST, (deck.speed or 1.0) * factor))
            self.repaint()

    def action_shift(self, seconds: float) -> None:
        """Go some seconds on or back."""
        if self.scene is not None:
            self.seek(self.scene.view.wall_us + round(seconds * 1e6))

    def action_edge(self, end: int) -> None:
        """Go to the start (0) or the end (1)."""
        deck = self.session.transport
        if deck is not None:
            self.seek(deck.span[end])

    def action_step(self) -> None:
        """Stop, and go one tick on."""
        deck = self.session.transport
        if deck is not None:
            deck.step()
            self.repaint()

    async def action_change(self, way: int) -> None:
        """Go to the next or last change of the job's verdict."""
        if self.scene is None:
            return
        there = await self.past.next_change(self.scene.view.wall_us, way)
        if there is None:
            self.notify("no change that way", markup=False)
        else:
            self.seek(there)

    def action_go_to(self) -> None:
        """Ask for a moment, and go there."""
        from gpuwatch.tui.screens.ask import Ask

        self.push_screen(Ask("18:03:27, +5m from the start, -30s", 40), self._go)

    def _go(self, text: str | None) -> None:
        deck = self.session.transport
        if not text or deck is None:
            return
        there = moment(text, *deck.span)
        if there is None:
            self.notify("no time: write 18:03:27, +5m or -30s", severity="warning", markup=False)
        else:
            self.seek(there)

    def seek(self, wall_us: int) -> None:
        """Go to a moment; a replay that stands still shows the first tick there."""
        deck = self.session.transport
        if deck is not None:
            deck.seek(max(deck.span[0], min(deck.span[1], wall_us)))
            if deck.paused:
                deck.step()
