"""The screen's widgets."""
