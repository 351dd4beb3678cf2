"""Puts the queries of the golden tables to any reader of Hudi tables, and shows how many are answered as by Hudi.

    python -m tests.golden.conformance [CASE|GROUP ...] --reader MODULE:FUNCTION
    python -m tests.golden.conformance [CASE|GROUP ...] --command 'PROGRAM ARGUMENT ...'
    python -m tests.golden.conformance [CASE|GROUP ...] --show RESULT.json ...

A function gets the path of a table, the kind of query and its options, and returns rows as Arrow. A program gets the
same three as its last arguments, the options as JSON, and prints an Arrow IPC stream. tests/golden/README.md has the
form of a case. The exit status is 1 unless all answers are equal.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.golden.conformance.processes import (
    MEBIBYTES,
    SECONDS,
    CommandReader,
    FunctionReader,
    Limits,
    Reader,
    ReaderNotStartedError,
    Verdict,
)
from tests.golden.conformance.results import Judgement, Result, features_matrix, kinds_matrix, markdown, run, text
from tests.golden.conformance.suite import KINDS, named
from tests.support.golden_cases import GoldenQuery

_USAGE_ERROR = 2


def main(arguments_given: Sequence[str] | None = None) -> int:
    """Runs the command line, or these arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="CASE|GROUP", help="cases, or letters of archives; default: all")
    readers = parser.add_mutually_exclusive_group(required=True)
    readers.add_argument("--reader", metavar="MODULE:FUNCTION", help="a function of Python")
    readers.add_argument("--command", metavar="COMMAND", help="a program, run once for each query")
    readers.add_argument(
        "--show", nargs="+", type=Path, metavar="RESULT", help="read nothing: what was saved, side by side"
    )
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="a Python that has the reader")
    parser.add_argument("--name", help="what the reader is called; default: READER of the module, or the command")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of query; default: %(default)s")
    parser.add_argument("--ignore", default="", metavar="COLUMN,...", help="columns that are not compared")
    parser.add_argument("--timeout", type=float, default=SECONDS, help="seconds for a query; default: %(default)s")
    parser.add_argument(
        "--memory", type=int, default=MEBIBYTES, help="MiB for the process, 0 for no bound; default: %(default)s"
    )
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="default: %(default)s")
    parser.add_argument(
        "--save",
        type=Path,
        metavar="FILE",
        help="write the result as JSON, or add it to that of this reader, for --show",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show each query that is not equal, and why")
    arguments = parser.parse_args(arguments_given)
    kinds = arguments.kinds.split(",")
    try:
        queries = named(arguments.names, kinds)
        results = [Result.load(path) for path in arguments.show] if arguments.show else [_asked(arguments, queries)]
    except (LookupError, OSError, ReaderNotStartedError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return _USAGE_ERROR
    results = [_limited(result, queries) for result in results]
    if arguments.save:
        results[0].save(arguments.save)
    if arguments.format == "json":
        print("".join(result.as_json() for result in results), end="")
    else:
        print("\n".join(_tables(results, kinds, arguments.format)))
    judgements = [judgement for result in results for judgement in result.judgements.values()]
    return 0 if all(judgement.verdict == Verdict.EQUAL for judgement in judgements) else 1


def _asked(arguments: argparse.Namespace, queries: Sequence[GoldenQuery]) -> Result:
    limits = Limits(seconds=arguments.timeout, mebibytes=arguments.memory)
    reader: Reader = (
        CommandReader(arguments.command, limits)
        if arguments.command
        else FunctionReader(arguments.reader, limits, python=arguments.python)
    )
    reader.name = arguments.name or reader.name
    ignored = [name for name in arguments.ignore.split(",") if name]
    try:
        return run(reader, queries, ignored=ignored, tell=_print_difference if arguments.verbose else lambda *_: None)
    finally:
        reader.close()


def _print_difference(query: GoldenQuery, judgement: Judgement) -> None:
    if judgement.verdict != Verdict.EQUAL:
        print("\n    ".join([f"{query.name}: {judgement.verdict}", *judgement.lines]), file=sys.stderr, flush=True)


def _limited(result: Result, queries: Sequence[GoldenQuery]) -> Result:
    keys = {(query.case, query.index) for query in queries}
    judgements = {key: judgement for key, judgement in result.judgements.items() if key in keys}
    return Result(reader=result.reader, judgements=judgements)


def _tables(results: Sequence[Result], kinds: Sequence[str], form: str) -> Iterator[str]:
    names = [result.reader for result in results]
    table = markdown if form == "markdown" else text
    yield from table(["query", "queries", *names], kinds_matrix(results))
    yield ""
    yield from table(["", "feature", "queries", *names], features_matrix(results, kinds))


if __name__ == "__main__":
    sys.exit(main())
