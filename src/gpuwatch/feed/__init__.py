"""Feeds: live and replay; both yield the same events."""
