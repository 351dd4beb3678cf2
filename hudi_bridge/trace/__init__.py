"""The history of one record key: its versions, which of them win, and why."""
