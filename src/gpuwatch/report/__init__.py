"""The report: who waited on what, how long, and what it cost. Pure but for its printing."""
