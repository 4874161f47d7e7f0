"""Recordings: WAL, sealed segments, manifest, reader."""
