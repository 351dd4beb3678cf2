"""Shared by connectors that publish files: the scratch folder, its lock, orphan files, and URIs for engines."""
