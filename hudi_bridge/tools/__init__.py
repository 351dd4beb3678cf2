"""Tools that read tables for people: what is wrong with a table, the history of a record, the difference of two
instants.

Each function takes an open ``HudiTable``; ``examine`` takes a path, even of a table that cannot be opened. Pages about
tables are in ``hudi_bridge.tools.report``. Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from hudi_bridge.common.imports import lazy_names

if TYPE_CHECKING:
    from hudi_bridge.tools.checks.examination import doctor as doctor
    from hudi_bridge.tools.checks.examination import examine as examine
    from hudi_bridge.tools.checks.findings import Diagnosis as Diagnosis
    from hudi_bridge.tools.checks.findings import Finding as Finding
    from hudi_bridge.tools.checks.findings import Limits as Limits
    from hudi_bridge.tools.checks.findings import Severity as Severity
    from hudi_bridge.tools.checks.findings import SliceCost as SliceCost
    from hudi_bridge.tools.differences.table_difference import TableDifference as TableDifference
    from hudi_bridge.tools.differences.table_difference import diff as diff
    from hudi_bridge.tools.trace.key_search import BaseCheck as BaseCheck
    from hudi_bridge.tools.trace.record_trace import FileGroupHistory as FileGroupHistory
    from hudi_bridge.tools.trace.record_trace import RecordHistory as RecordHistory
    from hudi_bridge.tools.trace.record_trace import history_of as history_of
    from hudi_bridge.tools.trace.verdicts import RecordVersion as RecordVersion
    from hudi_bridge.tools.trace.verdicts import UncountedVersion as UncountedVersion
    from hudi_bridge.tools.trace.verdicts import UnreadablePlace as UnreadablePlace
    from hudi_bridge.tools.trace.verdicts import Verdict as Verdict
    from hudi_bridge.tools.trace.version_search import find_versions as find_versions

_HOMES = {
    "BaseCheck": "hudi_bridge.tools.trace.key_search",
    "Diagnosis": "hudi_bridge.tools.checks.findings",
    "FileGroupHistory": "hudi_bridge.tools.trace.record_trace",
    "Finding": "hudi_bridge.tools.checks.findings",
    "Limits": "hudi_bridge.tools.checks.findings",
    "RecordHistory": "hudi_bridge.tools.trace.record_trace",
    "RecordVersion": "hudi_bridge.tools.trace.verdicts",
    "Severity": "hudi_bridge.tools.checks.findings",
    "SliceCost": "hudi_bridge.tools.checks.findings",
    "TableDifference": "hudi_bridge.tools.differences.table_difference",
    "UncountedVersion": "hudi_bridge.tools.trace.verdicts",
    "UnreadablePlace": "hudi_bridge.tools.trace.verdicts",
    "Verdict": "hudi_bridge.tools.trace.verdicts",
    "diff": "hudi_bridge.tools.differences.table_difference",
    "doctor": "hudi_bridge.tools.checks.examination",
    "examine": "hudi_bridge.tools.checks.examination",
    "find_versions": "hudi_bridge.tools.trace.version_search",
    "history_of": "hudi_bridge.tools.trace.record_trace",
}

__all__ = list(_HOMES)

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
