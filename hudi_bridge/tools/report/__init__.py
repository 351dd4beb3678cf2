"""A page about a table, in one file: timeline, plans, file slices, compaction, schema, findings, records."""

from hudi_bridge.tools.report.contents import Report, gather
from hudi_bridge.tools.report.page import html_report

__all__ = ["Report", "gather", "html_report"]
