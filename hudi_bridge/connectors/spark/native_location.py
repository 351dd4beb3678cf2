"""Where Spark finds the files of a table: by paths as Hadoop's file systems take them."""

import re
from dataclasses import dataclass
from typing import Any, Self

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark.java import java_class, static_method
from hudi_bridge.masking import without_secrets
from hudi_bridge.storage import Storage

_PROPERTIES = ".hoodie/hoodie.properties"
# Hadoop's own client of S3 goes by the last name.
_SCHEMES = {"s3": ("s3", "s3a"), "s3n": ("s3n", "s3a")}
# Letters that stay the same in URIs; names that begin with other signs are hidden from Spark.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_IN_FOLDERS = re.compile(r"[\[\]{}*?\\\x00-\x1f\x7f]")


class NotNativeError(Exception):
    """Raised if Spark can read no file of a table itself; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFolder:
    """The folder of a table as Hadoop's ``Path`` takes it, in which nothing is escaped.

    ``only_ascii`` says that the JVM cannot name other files.
    """

    path: str
    only_ascii: bool

    @classmethod
    def of(cls, spark: SparkSession, table_path: str) -> Self:
        """The folder of a table, given as by the user.

        Raises:
            NotNativeError: Spark has no access to it, or not by this name.
        """
        storage = Storage.open(table_path)
        encoding = str(static_method(spark, "java.lang.System", "getProperty")("sun.jnu.encoding"))
        only_ascii = storage.is_local and encoding.upper() != "UTF-8"
        reasons = []
        for path in [f"file://{storage.root}"] if storage.is_local else _uris(table_path):
            folder = cls(path=path, only_ascii=only_ascii)
            reason = folder.why_not("x") or _why_not_found(spark, f"{path}/{_PROPERTIES}")
            if reason is None:
                return folder
            reasons.append(reason)
        raise NotNativeError(reasons[-1])

    def why_not(self, path: str) -> str | None:
        """The reason why Spark cannot be told of a file, relative to the table; None if it can."""
        folder, _, name = path.rpartition("/")
        if not _PLAIN_NAME.fullmatch(name):
            return "the name of its base file has signs that Spark changes"
        if _NOT_IN_FOLDERS.search(f"{self.path}/{folder}"):
            return "its folder has signs that Spark takes for a pattern"
        if self.only_ascii and not f"{self.path}/{folder}".isascii():
            return "its folder has letters that this JVM cannot name"
        return None


def _uris(table_path: str) -> list[str]:
    if without_secrets(table_path) != table_path or "%" in table_path or "#" in table_path:
        raise NotNativeError("the URI of the table has escaped signs, or says more than where the table is")
    scheme, _, rest = table_path.partition("://")
    return [f"{one}://{rest}" for one in _SCHEMES.get(scheme, (scheme,))]


def _why_not_found(spark: SparkSession, file: str) -> str | None:
    session: Any = spark._jsparkSession  # noqa: SLF001 - PySpark has no other access
    settings = session.sessionState().newHadoopConf()
    try:
        path = java_class(spark, "org.apache.hadoop.fs.Path")(file)
        if path.getFileSystem(settings).exists(path):
            return None
    except (Py4JJavaError, PySparkException) as error:
        # Its text may hold secrets.
        java = getattr(error, "java_exception", None)
        return f"Spark cannot reach the table: {type(error).__name__ if java is None else java.getClass().getName()}"
    return "Spark cannot reach the table: it finds none there"
