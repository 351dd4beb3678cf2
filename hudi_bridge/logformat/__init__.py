"""The log file format: bytes to blocks to records. Nothing here opens a file."""
