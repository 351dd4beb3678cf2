"""Log files: bytes -> blocks -> records, without opening a file."""
