"""Plain records and pure arithmetic on them: no I/O, no clock, no asyncio."""
