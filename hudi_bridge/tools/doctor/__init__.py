"""Examines tables: what is damaged, what contradicts, what is under way for too long, and what a table costs."""

from hudi_bridge.tools.doctor.examination import (
    CHECKS,
    Check,
    examine,
    examine_state,
    examine_storage,
    is_table_folder,
    tables_below,
)
from hudi_bridge.tools.doctor.findings import Diagnosis, Finding, Limits, Severity, SliceCost

__all__ = [
    "CHECKS",
    "Check",
    "Diagnosis",
    "Finding",
    "Limits",
    "Severity",
    "SliceCost",
    "examine",
    "examine_state",
    "examine_storage",
    "is_table_folder",
    "tables_below",
]
