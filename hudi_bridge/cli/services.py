"""Lists of table services: compactions, clusterings, cleans, rollbacks, savepoints, indexings."""

from collections.abc import Callable

from hudi_bridge.cli import options
from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.opening import open_table
from hudi_bridge.cli.output import Destination, write
from hudi_bridge.inspection import inspect_services

_SERVICES = Look(
    keep=("requested_time", "service", "state", "files_planned", "files_done", "age_seconds", "hudi_command")
)


def _command(kind: str, help_text: str) -> Callable[..., None]:
    def show_services(
        table: options.Table,
        *,
        option: options.Option = None,
        storage_option: options.StorageOption = None,
        output_format: options.FormatChoice = None,
        output: options.OutputFile = None,
        no_clobber: options.NoClobber = False,
    ) -> None:
        destination = Destination.of(output_format, output, no_clobber=no_clobber)
        opened = open_table(table, option, storage_option=storage_option)
        write(inspect_services(opened, [kind]).to_reader(), destination, look=_SERVICES)

    show_services.__name__ = kind
    show_services.__doc__ = help_text
    return show_services


compactions = _command(
    "compactions", "Compactions and log compactions: what was planned, what is written, how to run it."
)
clusterings = _command("clusterings", "Clusterings: what was planned, what is written, how to run it.")
cleans = _command("cleans", "Cleans: what was to be deleted, what was deleted, and the earliest instant that is kept.")
rollbacks = _command("rollbacks", "Rollbacks and restores: what they take back, and what they deleted.")
savepoints = _command("savepoints", "Savepoints: the files that they keep, by whom and why.")
indexings = _command("indexings", "Indexes that were built: up to which instant, and whether they are complete.")
