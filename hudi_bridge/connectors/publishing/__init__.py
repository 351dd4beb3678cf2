"""What connectors that write files beside a table share: the folder, its lock, orphan files, what files are called."""
