"""The screen's paint."""
