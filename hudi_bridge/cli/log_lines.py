"""What a service logs, on the standard error output: as text, or as one JSON object a line."""

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum


class LogFormat(StrEnum):
    """The values of ``--log-format``."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The values of ``--log-level``."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


class JsonLines(logging.Formatter):
    """A JSON object for each record: time (UTC), level, logger, thread, message, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_to_standard_error(log_format: LogFormat, level: LogLevel) -> None:
    """Have this package log at a level, and all others from warnings on."""
    handler = logging.StreamHandler()
    is_json = log_format is LogFormat.JSON
    handler.setFormatter(JsonLines() if is_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("hudi_bridge").setLevel(level.name)
