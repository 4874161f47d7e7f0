"""Who waited on what, how long: text and JSON."""
