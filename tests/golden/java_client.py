"""Writes java_client.tar.xz: tables by the Java client of Hudi 1.1.2 and 1.2.1, which have no bundle for Spark.

    .venv-spark35/bin/python -m tests.golden.java_client work-folder write [table ...]
    .venv-spark35/bin/python -m tests.golden.java_client work-folder 1.2.0 [table ...]
    tar -C work-folder --sort=name -cf - . | xz -9e > tests/golden/java_client.tar.xz

Both need the PySpark 3.5 of ``make spark``, the first also Maven, which fetches the jars, and a JDK 11 or 17.
``JavaClientWriter.java`` carries out steps, and ``JavaClientReader.java`` reads the newest snapshot by the file group
reader of 1.2.1, for Hudi's Java engine. The second command asks Hudi 1.2.0 on Spark.

Some jars that the client names are not published with these releases: the timeline service, which is switched off, and
the shaded jar of ``hudi-io``, in place of which the plain one is taken.

<table>/table                   the table
<table>/answers_<release>.json  the queries: kind, options of Hudi's data source, and the name of the answer or an error
<table>/answers_<release>       the rows that the release returned; those of 1.2.1 have numbers in place of times
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.golden.generate.answers import save_rows, short_error
from tests.golden.generate.questions import Questions
from tests.golden.generate.releases import RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.generate.timeline import instants, table_version

READER, OLDER = "1.2.1", "1.1.2"
_LEFT_OUT = (
    "org.apache.hudi:hudi-timeline-service",
    "org.apache.hudi:hudi-io",
    "io.confluent:*",
    "org.apache.hbase:*",
    "org.apache.hive:*",
    "io.prometheus:*",
    "software.amazon.awssdk:*",
)
_BESIDE = (
    "org.apache.hadoop:hadoop-client-api:3.3.4",
    "org.apache.hadoop:hadoop-client-runtime:3.3.4",
    "org.apache.avro:avro:1.11.4",
    "org.apache.parquet:parquet-avro:1.13.1",
    "com.esotericsoftware:kryo-shaded:4.0.2",
    "org.slf4j:slf4j-nop:1.7.36",
)
_OPENED = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util", "nio")]
_KEYGEN = "org.apache.hudi.keygen."
Json = dict[str, Any]


def _schema(kinds: Mapping[str, Any]) -> Json:
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in kinds.items()]
    return {"type": "record", "name": "rows", "fields": fields}


def _logical(name: str) -> Json:
    return {"type": "long", "logicalType": name}


_PLAIN: dict[str, Any] = {"id": "string", "name": "string", "ts": "long"}
SCHEMA = _schema(_PLAIN)
MISLABELLED = _schema({**_PLAIN, "at": _logical("timestamp-micros"), "lm": "long", "lu": "long"})
"""How releases from 0.14 to 1.0 wrote the next schema: of other units, or without any."""
LABELLED = _schema(
    {
        **_PLAIN,
        "at": _logical("timestamp-millis"),
        "lm": _logical("local-timestamp-millis"),
        "lu": _logical("local-timestamp-micros"),
    }
)
FROM_POSTGRES = _schema({**_PLAIN, "big": "string", "_change_operation_type": "string", "_event_lsn": "long"})
EXTERNAL = _schema({"id": "long", "name": "string", "part": "string"})
_MILLIS = 1_720_631_224_939


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: the release that writes it, its version, and the steps."""

    steps: Sequence[Json]
    release: str = READER
    version: int = 9
    schema: Json = field(default_factory=lambda: SCHEMA)
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, range] = field(default_factory=dict)
    """Files that the steps register, with the numbers of their rows."""


def _upsert(name: str, prefix: str, ts: int, ids: str, **more: Any) -> Json:
    rows = [
        {"id": id_, "name": prefix + id_, "ts": ts, "at": number, "lm": number, "lu": number * 1000 + 7}
        for number, id_ in enumerate(ids, _MILLIS + ts)
    ]
    return {"do": "upsert", "as": name, "rows": rows, **more}


_LEFT = _upsert("first", "p", 1, "abcdef", pending=True)
_LATER = _upsert("second", "c", 2, "abc", into="first")
_ROLLBACK = {"do": "rollback", "as": "first"}
_STEPS = {
    "pending": [_LEFT, _LATER],
    "rolled_back": [_LEFT, _LATER, _ROLLBACK],
    "rolled_back_before": [_LEFT, _ROLLBACK, _LATER, _upsert("third", "d", 3, "cd", into="first")],
    "pending_twice": [
        _LEFT,
        _upsert("second", "q", 2, "ab", pending=True, into="first"),
        _upsert("third", "c", 3, "abc", into="first"),
        _upsert("fourth", "d", 4, "cd", into="first"),
    ],
}
_OLD_ROWS = _upsert("first", "a", 1, "abcd", schema=MISLABELLED)
_COMPACTION = {"do": "compact", "as": "base", "schema": MISLABELLED}
_NEW_ROWS = _upsert("second", "b", 500, "bc", into="first", schema=LABELLED)
_UNAVAILABLE = "__debezium_unavailable_value"


def _from_postgres(name: str, *changes: tuple[str, int, str, str], **more: Any) -> Json:
    rows = [
        {"id": id_, "name": name, "ts": place, "big": big, "_change_operation_type": operation, "_event_lsn": place}
        for id_, place, big, operation in changes
    ]
    return {"do": "upsert", "as": name, "rows": rows, **more}


_POSTGRES = "org.apache.hudi.common.model.debezium.PostgresDebeziumAvroPayload"
_POSTGRES_STEPS = [
    _from_postgres("base", *((id_, 100, f"big {id_}", "c") for id_ in "abcdef")),
    {"do": "compact", "as": "compaction"},
    _from_postgres(
        "second",
        ("a", 101, _UNAVAILABLE, "u"),
        ("b", 99, _UNAVAILABLE, "u"),
        ("c", 100, "new", "u"),
        ("d", 120, _UNAVAILABLE, "d"),
        ("e", 110, "set", "u"),
        into="base",
    ),
    _from_postgres("third", ("c", 102, _UNAVAILABLE, "u"), ("e", 111, _UNAVAILABLE, "u"), into="base"),
]
_COMPACTS = {"hoodie.compact.inline.max.delta.commits": "1"}


def _register(name: str, instant: str, files: Mapping[str, range], removes: Sequence[tuple[str, str]] = ()) -> Json:
    named = [
        {
            "partition": path.split("/")[0],
            "below": "/".join(path.split("/")[1:-1]),
            "name": path.split("/")[-1],
            "rows": len(rows),
        }
        for path, rows in files.items()
    ]
    removed = [{"partition": partition, "id": file_id} for partition, file_id in removes]
    return {"do": "register", "as": name, "instant": instant, "files": named, "removes": removed}


_FIRST = {"a/f1.parquet": range(5), "b/g1.parquet": range(5, 9)}
_SECOND = {"b/bucket-1/f2.parquet": range(9, 14)}
_WITHOUT_KEYS = {
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.recordkey.fields": "",
    "hoodie.table.ordering.fields": "",
    "hoodie.table.partition.fields": "part",
    "hoodie.populate.meta.fields": "false",
    "hoodie.table.keygenerator.class": _KEYGEN + "SimpleKeyGenerator",
}
_WITH_RECORD_INDEX = {
    "hoodie.populate.meta.fields": "false",
    "hoodie.clean.failed.writes.policy": "EAGER",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
TABLES = {
    **{
        f"{name}_v{version}": Table(steps=steps, version=version)
        for name, steps in _STEPS.items()
        for version in (6, 8, 9)
    },
    **{
        f"begun_v{version}": Table(
            steps=[_upsert("earlier", "z", 0, "z"), _LEFT, _LATER],
            version=version,
            options={"hoodie.parquet.small.file.limit": "0"},
        )
        for version in (6, 8, 9)
    },
    "pending_by112": Table(steps=_STEPS["pending"], release=OLDER),
    **{
        f"{name}_{ending}": Table(steps=steps, release=release, version=version, schema=LABELLED, options=_COMPACTS)
        for name, steps in (
            ("millis_logs", [_OLD_ROWS, _NEW_ROWS]),
            ("millis_base", [_OLD_ROWS, _COMPACTION, _NEW_ROWS]),
            ("millis_compacted", [_OLD_ROWS, _COMPACTION, _NEW_ROWS, {**_COMPACTION, "schema": LABELLED}]),
        )
        for ending, release, version in (("v6", READER, 6), ("v9", READER, 9), ("by112", OLDER, 9))
    },
    **{
        f"postgres_v{version}": Table(
            steps=_POSTGRES_STEPS,
            version=version,
            schema=FROM_POSTGRES,
            properties={
                "hoodie.compaction.payload.class": _POSTGRES,
                "hoodie.table.ordering.fields": "_event_lsn",
                "hoodie.table.precombine.field": "_event_lsn",
            },
            options={**_COMPACTS, "hoodie.datasource.write.payload.class": _POSTGRES},
        )
        for version in (6, 8)
    },
    "record_index_v9": Table(
        steps=[
            _register("first", "20260101000000000", _FIRST),
            _register("second", "20260102000000000", _SECOND, [("a", "f1.parquet")]),
        ],
        schema=EXTERNAL,
        properties=_WITHOUT_KEYS,
        options=_WITH_RECORD_INDEX,
        files={**_FIRST, **_SECOND},
    ),
}


def _job(path: Path, table: Table) -> Json:
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(table.version),
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.precombine.field": "ts" if not table.files else "",
        "hoodie.table.keygenerator.class": _KEYGEN + "NonpartitionedKeyGenerator",
        "hoodie.table.timeline.timezone": "UTC",
        **table.properties,
    }
    options = {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": str(table.version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.index.type": "INMEMORY",
        "hoodie.embed.timeline.server": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.keygenerator.class": properties["hoodie.table.keygenerator.class"],
        **table.options,
    }
    named = {name: value for name, value in properties.items() if value}
    return {"path": str(path), "table": named, "options": options, "schema": table.schema, "steps": list(table.steps)}


def _fetched(folder: Path, release: str) -> Path:
    """A folder with the jars of Hudi's Java client, and with the writer and the reader if they fit the release."""
    excluded = "".join(
        "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>".format(*name.split(":"))
        for name in _LEFT_OUT
    )
    names = [f"org.apache.hudi:{name}:{release}" for name in ("hudi-java-client", "hudi-hadoop-common", "hudi-io")]
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>".format(
            *name.split(":"), f"<exclusions>{excluded}</exclusions>" if "hudi-io" not in name else ""
        )
        for name in (*names, *_BESIDE)
    )
    folder.mkdir()
    (folder / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>golden</groupId><artifactId>java</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
    command = ["mvn", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}"]
    subprocess.run([*command, "-DincludeScope=runtime"], cwd=folder, check=True)
    names = ["JavaClientWriter.java"] + ["JavaClientReader.java"] * (release == READER)
    sources = [Path(__file__).with_name(name) for name in names]
    subprocess.run(["javac", "-nowarn", "-cp", f"{folder / 'jars'}/*", "-d", folder / "classes", *sources], check=True)
    return folder


def _run(jars: Path, program: str, *arguments: Path) -> None:
    command: list[str | Path] = ["java", "-Xmx1g", "-Duser.timezone=UTC", *_OPENED]
    subprocess.run([*command, "-cp", f"{jars / 'classes'}:{jars / 'jars'}/*", program, *arguments], check=True)


def write_tables(folder: Path, names: Sequence[str]) -> None:
    """Writes the tables, and keeps what the reader of 1.2.1 gives."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        releases = {READER, *(TABLES[name].release for name in names)}
        jars = {release: _fetched(work / release, release) for release in releases}
        jobs: dict[str, list[Path]] = {release: [] for release in releases}
        for name in names:
            table, path = TABLES[name], folder / name / "table"
            shutil.rmtree(path.parent, ignore_errors=True)
            path.mkdir(parents=True)
            for file, numbers in table.files.items():
                (path / file).parent.mkdir(parents=True, exist_ok=True)
                rows = {"id": pa.array(numbers, pa.int64()), "name": [f"n{number % 4}" for number in numbers]}
                pq.write_table(pa.table({**rows, "part": [file[0]] * len(numbers)}), path / file, row_group_size=3)
            jobs[table.release].append(work / f"{name}.json")
            jobs[table.release][-1].write_text(json.dumps(_job(path, table)))
        for release, of_release in jobs.items():
            _run(jars[release], "JavaClientWriter", *of_release)
        _read_tables(folder, names, jars[READER], work)


def _read_tables(folder: Path, names: Sequence[str], jars: Path, work: Path) -> None:
    read = [path for name in names for path in (folder / name / "table", work / f"{name}.rows")]
    _run(jars, "JavaClientReader", *read)
    for name in names:
        rows = [json.loads(line) for line in (work / f"{name}.rows").read_text().splitlines()]
        answer: Json = {"kind": "snapshot", "options": {}}
        if rows[0].keys() == {"error"}:
            answer |= rows[0]
        else:
            answer["rows"] = "snapshot.parquet"
            (folder / name / f"answers_{READER}").mkdir()
            pq.write_table(pa.Table.from_pylist(rows), folder / name / f"answers_{READER}" / answer["rows"])
        _save(folder / name, READER, [answer])


def _save(folder: Path, release: str, answers: Sequence[Json]) -> None:
    (folder / f"answers_{release}.json").write_text(json.dumps(answers, indent=1) + "\n")
    for path in (*folder.rglob("*.crc"), *folder.glob("*.instants.json")):
        path.unlink()


def ask_spark(folder: Path, names: Sequence[str], release: str) -> None:
    """Keeps what a release of Hudi on Spark answers."""
    with spark_session(release, RELEASES[release].bundle.fetched()) as spark:
        for name in names:
            path, answers = folder / name / "table", []
            rows_of_release = folder / name / f"answers_{release}"
            rows_of_release.mkdir()
            asked = Questions(time_travels=2, ranges=1).about(instants(path), table_version(path), has_changes=False)
            for question in asked:
                answer: Json = {"kind": question.kind, "options": dict(question.options)}
                has_index = "metadata" in [part.name for part in (path / ".hoodie").iterdir()]
                options = {**question.options, "hoodie.metadata.enable": str(has_index).lower()}
                try:
                    rows = spark.read.format("hudi").options(**options).load(str(path))
                    save_rows(spark, rows, rows_of_release / f"{question.stem}.parquet")
                    answer["rows"] = f"{question.stem}.parquet"
                except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
                    answer["error"] = short_error(error)
                answers.append(answer)
            _save(folder / name, release, answers)


def main() -> None:
    """Writes the tables, or those that are named, or asks a release for their rows."""
    folder, what, *names = sys.argv[1:]
    if what == "write":
        write_tables(Path(folder).resolve(), names or list(TABLES))
    else:
        ask_spark(Path(folder).resolve(), names or list(TABLES), what)


if __name__ == "__main__":
    main()
