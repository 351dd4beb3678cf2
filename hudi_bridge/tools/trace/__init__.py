"""Where the versions of a record are."""
