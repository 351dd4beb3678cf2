"""Writes flink.tar.xz: tables that Hudi 0.14 writes on Flink 1.17, with the answers of Hudi on Spark.

    python -m tests.golden.flink work-folder write [table ...]
    .venv-spark35/bin/python -m tests.golden.flink work-folder 0.15.0 [table ...]
    .venv-spark35/bin/python -m tests.golden.flink work-folder 1.2.0 [table ...]
    tar -C work-folder --sort=name -cf - . | xz -9e > tests/golden/flink.tar.xz

The first command needs Maven, which fetches the jars, and a JDK 11 or 17; those with a release need the PySpark 3.5 of
``make spark``. ``FlinkWriter.java`` runs the jobs. The archive has the answers of 1.2.0 for some tables only.

<table>/table                   the table
<table>/answers_<release>.json  the queries: kind, options of Hudi's data source, and the name of the answer or an error
<table>/answers_<release>       the rows that the release returned
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLINK = "1.17.1"
ARTIFACTS = (
    f"org.apache.flink:flink-clients:{FLINK}",
    f"org.apache.flink:flink-table-planner_2.12:{FLINK}",
    f"org.apache.flink:flink-table-runtime:{FLINK}",
    f"org.apache.flink:flink-table-api-java-bridge:{FLINK}",
    f"org.apache.flink:flink-connector-files:{FLINK}",
    f"org.apache.flink:flink-statebackend-rocksdb:{FLINK}",
    "org.apache.hadoop:hadoop-client-api:3.3.4",
    "org.apache.hadoop:hadoop-client-runtime:3.3.4",
    "org.apache.hadoop:hadoop-mapreduce-client-core:3.3.4",
    "org.apache.hudi:hudi-flink1.17-bundle:0.14.0",
)
OPENED = [
    "lang",
    "lang.invoke",
    "lang.reflect",
    "util",
    "util.concurrent",
    "util.concurrent.atomic",
    "nio",
    "net",
    "io",
    "time",
    "text",
]

CHANGES = r"""+I|1|a|1|p1
+I|2|b|1|p1
+I|3|c|5|p2
+I|4|d|5|p2
+I|5|e|5|p2
---
-U|1|a|1|p1
+U|1|a2|2|p1
-D|2|b|1|p1
+U|3|late|0|p2
-D|4|d|5|p2
-D|5|e|3|p2
+I|6|f|1|p1
-U|6|f|1|p1
+U|6|f2|1|p1
---
-U|1|a2|2|p1
+U|1|a3|3|p1
-D|3|c|9|p2
+I|2|back|2|p1
+I|4|back|1|p2
+I|7|g|1|p1
-D|7|g|1|p1
---
+I|8|h|1|p1
-D|1|a3|3|p1
+U|5|e9|1|p2"""
PARTIAL = CHANGES.replace("+U|1|a2|", r"+U|1|\N|").replace("+U|3|late", r"+U|3|\N")
LATER = "+I|1|n1|9|p1\n-D|2|b|9|p1\n+U|3|n3|10|p2\n---\n+I|10|n10|1|p3"
INSERTS = "\n".join(f"+I|{key}|n{key}|{key}|p{key % 2}" for key in range(1, 7))
OTHER_INSERTS = "\n".join(f"+I|{key}|m{key}|{key}|p{key % 3}" for key in range(4, 9))
UPSERTS = INSERTS + "\n---\n+U|1|x1|4|p1\n-D|2|n2|2|p0"
MOMENTS = r"""+I|1|2024-02-29 12:34:56.789123|12.34|p1
+I|2|1969-12-31 23:59:59.999999|-12.5|p1
+I|3|1500-03-01 01:02:03.000001|0|p2
+I|4|\N|\N|p2
---
+U|1|2038-01-19 03:14:08.000100|999.99|p1
-D|2|1969-12-31 23:59:59.999999|-12.5|p1
+U|4|0001-01-01 00:00:00|1|p2
+I|5|9999-12-31 23:59:59.999|\N|p2"""

COLUMNS = {
    "id INT": "CAST(a AS INT)",
    "name STRING": "b",
    "ts BIGINT": "CAST(c AS BIGINT)",
    "part STRING": "d",
}
"""The columns of a table, and the SQL that makes them of those of the source."""
_TIME = "CAST(b AS TIMESTAMP(3))"
TYPES = {
    "id INT": "CAST(a AS INT)",
    "t3 TIMESTAMP(3)": _TIME,
    "t6 TIMESTAMP(6)": "CAST(b AS TIMESTAMP(6))",
    "l3 TIMESTAMP_LTZ(3)": "CAST(b AS TIMESTAMP_LTZ(3))",
    "l6 TIMESTAMP_LTZ(6)": "CAST(b AS TIMESTAMP_LTZ(6))",
    "dt DATE": f"CAST({_TIME} AS DATE)",
    "d1 DECIMAL(9,2)": "CAST(c AS DECIMAL(9,2))",
    "d2 DECIMAL(18,3)": "CAST(c AS DECIMAL(18,3))",
    "d3 DECIMAL(38,10)": "CAST(c AS DECIMAL(38,10))",
    "bs BYTES": "CAST(c AS BYTES)",
    "bo BOOLEAN": "CAST(a AS INT) > 2",
    "f FLOAT": "CAST(c AS FLOAT)",
    "db DOUBLE": "CAST(c AS DOUBLE)",
    "ar ARRAY<INT>": "ARRAY[CAST(a AS INT), 7]",
    "mp MAP<STRING,BIGINT>": "MAP[d, CAST(a AS BIGINT)]",
    "ro ROW<x INT, y STRING, z TIMESTAMP(3)>": f"ROW(CAST(a AS INT), b, {_TIME})",
    "aro ARRAY<ROW<q DECIMAL(5,1), w DATE>>": f"ARRAY[ROW(CAST(c AS DECIMAL(5,1)), CAST({_TIME} AS DATE))]",
    "ch CHAR(3)": "CAST(d AS CHAR(3))",
    "vc VARCHAR(5)": "CAST(d AS VARCHAR(5))",
    "ts BIGINT": "CAST(a AS BIGINT)",
    "part STRING": "d",
}
NESTED = {
    "mm MAP<STRING,ARRAY<ROW<k INT, v MAP<STRING,TIMESTAMP(3)>>>>": (
        f"MAP[d, ARRAY[ROW(CAST(a AS INT), MAP['k', {_TIME}])]]"
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one job of Flink writes into a table."""

    rows: str = CHANGES
    columns: Mapping[str, str] = field(default_factory=lambda: COLUMNS)
    insert: str = "INSERT INTO t"
    streams: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table: its options beside those of all, its fields, and the jobs that write it."""

    options: Mapping[str, str] = field(default_factory=dict)
    key: str = "id"
    partition: str = "part"
    jobs: tuple[Job, ...] = (Job(),)


def _payload(name: str) -> dict[str, str]:
    return {"payload.class": f"org.apache.hudi.common.model.{name}"}


_WITHOUT_PARTITION = {name: sql for name, sql in COLUMNS.items() if name != "part STRING"}
_BY_TIME = _WITHOUT_PARTITION | {"part TIMESTAMP(3)": "CAST('2024-02-03 04:05:06.789' AS TIMESTAMP(3))"}
_ORDERED = {"id INT": "CAST(a AS INT)", "name STRING": "b"}
_ORDERED |= {"ts TIMESTAMP(6)": "CAST(TO_TIMESTAMP_LTZ(CAST(c AS INT), 0) AS TIMESTAMP(6))", "part STRING": "d"}
_TWO_FIELDS = _WITHOUT_PARTITION | {"p1 STRING": "d", "p2 INT": "CAST(a AS INT)"}
_WIDER = _WITHOUT_PARTITION | {"extra DECIMAL(12,4)": "CAST(c AS DECIMAL(12,4))", "part STRING": "d"}
_BUCKETS = {"index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
_CDC = {"cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "data_before"}
_HIVE = {
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}
_STATE = {"index.bootstrap.enabled": "true"}
_ALL_TYPES = Table(
    options={"write.operation": "insert"}, jobs=(Job(rows=MOMENTS.replace("-D", "+I"), columns=TYPES | NESTED),)
)
_EVOLVED = Table(options=_STATE, jobs=(Job(), Job(rows=LATER, columns=_WIDER)))
_OVERWRITTEN = (Job(rows=INSERTS, streams=False),)
_OVER_TABLE = Job(rows=OTHER_INSERTS, insert="INSERT OVERWRITE t", streams=False)
_PARTIAL = Table(options=_payload("PartialUpdateAvroPayload"), jobs=(Job(rows=PARTIAL),))
_OTHER_PAYLOADS = {
    "latest": _payload("OverwriteWithLatestAvroPayload"),
    "event_time": _payload("DefaultHoodieRecordPayload"),
}
_BY_PARTITION_TIME = Table(jobs=(Job(rows=UPSERTS.replace("n3", r"\N"), columns=_BY_TIME),))

TABLES = {
    "cow_hive": Table(options=_HIVE, jobs=(Job(rows=CHANGES.replace("|p1", "|p/1 x").replace("|p2", "|")),)),
    "cow_changelog": Table(options={"changelog.enabled": "true"}),
    "cow_cdc": Table(options=_CDC),
    "cow_bucket": Table(options=_BUCKETS),
    "cow_types": _ALL_TYPES,
    "cow_evolved": _EVOLVED,
    "cow_overwrite_partition": Table(
        jobs=(
            *_OVERWRITTEN,
            Job(
                rows=OTHER_INSERTS,
                columns=_WITHOUT_PARTITION,
                insert="INSERT OVERWRITE t PARTITION (part='p1')",
                streams=False,
            ),
        )
    ),
    "cow_two_partition_fields": Table(partition="p1, p2", jobs=(Job(rows=UPSERTS, columns=_TWO_FIELDS),)),
    "cow_partial_update": _PARTIAL,
    "cow_nondefaults": Table(options=_payload("OverwriteNonDefaultsWithLatestAvroPayload"), jobs=(Job(rows=PARTIAL),)),
    "cow_partition_by_time": _BY_PARTITION_TIME,
    "mor_plain": Table(),
    "mor_changelog": Table(options={"changelog.enabled": "true"}),
    "mor_cdc": Table(options=_CDC),
    "mor_bucket": Table(options=_BUCKETS),
    "mor_consistent_hashing": Table(options=_BUCKETS | {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}),
    "mor_compacted": Table(
        options={"compaction.async.enabled": "true", "compaction.tasks": "1", "compaction.delta_commits": "1"}
    ),
    "mor_parquet_logs": Table(options={"hoodie.logfile.data.block.format": "parquet"}),
    "mor_types": Table(
        jobs=(Job(rows=MOMENTS, columns=TYPES | {"ar ARRAY<INT>": "ARRAY[CAST(a AS INT), CAST(NULL AS INT)]"}),)
    ),
    "mor_types_insert": _ALL_TYPES,
    "mor_ordered_by_time": Table(options=_OTHER_PAYLOADS["event_time"], jobs=(Job(columns=_ORDERED),)),
    "mor_event_time": Table(options=_OTHER_PAYLOADS["event_time"], jobs=(Job(rows=PARTIAL),)),
    "mor_latest": Table(options=_OTHER_PAYLOADS["latest"], jobs=(Job(rows=PARTIAL),)),
    "mor_partial_update": _PARTIAL,
    "mor_evolved": _EVOLVED,
    "mor_overwrite_table": Table(jobs=(*_OVERWRITTEN, _OVER_TABLE)),
    "mor_two_key_fields": Table(
        key="id, name",
        jobs=(Job(rows=CHANGES.replace("|a2|", "|a|").replace("|a3|", "|a|").replace("|late|", "|c|")),),
    ),
    "mor_metadata_table": Table(options={"metadata.enabled": "true"}),
    "mor_two_jobs": Table(options=_STATE, jobs=(Job(), Job(rows=LATER))),
    "mor_partition_by_time": _BY_PARTITION_TIME,
}


def _jobs(name: str, table: Table, path: Path) -> str:
    """The jobs of a table, as ``FlinkWriter.java`` reads them."""
    kind = "COPY_ON_WRITE" if name.startswith("cow") else "MERGE_ON_READ"
    options = {
        "connector": "hudi",
        "path": str(path),
        "table.type": kind,
        "precombine.field": "ts",
        "metadata.enabled": "false",
        "compaction.async.enabled": "false",
        **table.options,
    }
    stated = ", ".join(f"'{option}'='{value}'" for option, value in options.items())
    lines = []
    for job in table.jobs:
        columns = ", ".join(COLUMNS if "PARTITION" in job.insert else job.columns)
        create = f"CREATE TABLE t ({columns}, PRIMARY KEY ({table.key}) NOT ENFORCED)"
        lines += [
            "#streaming" if job.streams else "#batch",
            f"{create} PARTITIONED BY ({table.partition}) WITH ({stated})",
            f"{job.insert} SELECT {', '.join(job.columns.values())} FROM s",
            job.rows,
        ]
    return "\n".join(lines) + "\n"


def _fetched(folder: Path) -> Path:
    """A folder with the jars of Flink and of Hudi."""
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *artifact.split(":")
        )
        for artifact in ARTIFACTS
    )
    (folder / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>golden</groupId><artifactId>flink</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
    jars = folder / "jars"
    subprocess.run(["mvn", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"], cwd=folder, check=True)
    return jars


def write_tables(folder: Path, names: Iterable[str]) -> None:
    """Writes the tables with Flink."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        jars = _fetched(work)
        source = Path(__file__).with_name("FlinkWriter.java")
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", work / "classes", source], check=True)
        files = []
        for name in names:
            files.append(work / f"{name}.jobs")
            files[-1].write_text(_jobs(name, TABLES[name], folder / name / "table"))
        opened = [part for package in OPENED for part in ("--add-opens", f"java.base/java.{package}=ALL-UNNAMED")]
        command: list[str | Path] = [
            "java",
            "-Duser.timezone=UTC",
            *opened,
            "-cp",
            f"{work / 'classes'}:{jars}/*",
            "FlinkWriter",
            *files,
        ]
        subprocess.run(command, check=True)
    for path in folder.rglob("*.crc"):
        path.unlink()


def ask(folder: Path, release: str, names: Iterable[str]) -> None:
    """Asks a release of Hudi on Spark for the rows of the tables."""
    # PySpark is not there where the tables are written.
    from tests.golden.generate.answers import Reader  # noqa: PLC0415
    from tests.golden.generate.questions import Questions  # noqa: PLC0415
    from tests.golden.generate.releases import RELEASES  # noqa: PLC0415
    from tests.golden.generate.session import spark_session  # noqa: PLC0415
    from tests.golden.generate.timeline import instants, properties, table_version  # noqa: PLC0415

    with spark_session(release, RELEASES[release].bundle.fetched()) as spark:
        for name in names:
            table, answers = folder / name / "table", folder / name / f"answers_{release}"
            (answers / "expected").mkdir(parents=True)
            reader = Reader(spark=spark, table=table, reader_options={})
            has_changes = properties(table).get("hoodie.table.cdc.enabled") == "true"
            actual: list[dict[str, Any]] = []
            asked = Questions(time_travels=6, ranges=4)
            for question in asked.about(instants(table), table_version(table), has_changes=has_changes):
                entry = reader.answer(question, answers)
                failed = entry["expected"] is None
                answer = {"error": entry["oracle_error"]} if failed else {"rows": entry["expected"]}
                actual.append({"kind": question.kind, "options": dict(question.options), **answer})
            (folder / name / f"answers_{release}.json").write_text(json.dumps(actual, indent=1) + "\n")


def main() -> None:
    """Writes the tables, or those that are named, or asks a release for their rows."""
    folder, what, *names = sys.argv[1:]
    if what == "write":
        write_tables(Path(folder).resolve(), names or TABLES)
    else:
        ask(Path(folder).resolve(), what, names or TABLES)


if __name__ == "__main__":
    main()
