"""The timeline of a table: which instants there are, and what their files say."""
