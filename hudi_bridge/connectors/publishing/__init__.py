"""Shared by connectors that publish files: the scratch folder, unique names, orphan files, and URIs for engines."""
