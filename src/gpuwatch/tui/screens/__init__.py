"""The screen's screens."""
