"""Which files of a benchmark table are base files; it has one in each file group, or none."""


class NoBaseFilesError(Exception):
    """Raised for a table of which all rows are in logs."""

    def __str__(self) -> str:
        """The message."""
        return "the table has no base files"


def is_base_file(path: str) -> bool:
    """Whether a path within a table is that of a base file."""
    return path.endswith(".parquet") and ".hoodie" not in path.split("/")
