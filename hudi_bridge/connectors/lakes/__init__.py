"""Folders of tables: how tables are found and named, and the settings that they are read with."""
