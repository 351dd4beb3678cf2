"""Kinds of files of a table, and damage to their bytes."""

import random

LOG = "**/.*.log.[0-9]*"
FILES: dict[str, tuple[str, str]] = {
    "Avro blocks": ("c_avro_blocks_120", LOG),
    "Parquet blocks": ("c_parquet_blocks_0150", LOG),
    "HFile blocks": ("c_hfile_blocks_0150", LOG),
    "deletes in Kryo": ("c_data_and_delete_block_0122", LOG),
    "deletes in Avro": ("c_data_and_delete_block_111", LOG),
    "change data": ("i_cdc_120", "**/.*.cdc"),
    "commits in JSON": ("d_clustering_done_0150", ".hoodie/*commit"),
    "commits in Avro": ("d_clustering_done_120", ".hoodie/timeline/*commit"),
    "plans": ("d_pending_compaction_120", ".hoodie/timeline/*.compaction.requested"),
    "archived log files": ("d_archived_0150", ".hoodie/archived/.commits_*"),
    "archived Parquet": ("d_archived_120", ".hoodie/timeline/history/*.parquet"),
    "schema history": ("g_sor_mixed_120", ".hoodie/.schema/20261121142727560_20261121142728541.schemacommit"),
}
"""A golden table of each kind, and the files of that kind in it."""


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The bytes cut off, with more or other bytes in them, without some, or with another bit."""
    position = chance.randrange(len(content))
    match chance.randrange(6):
        case 0:
            return content[:position]
        case 1:
            return content[:position] + chance.randbytes(1) + content[position:]
        case 2:
            return content[:position] + bytes(8) + content[position + 8 :]
        case 3:
            return content[: position + 8] + content[position:]
        case _:
            return content[:position] + bytes([content[position] ^ 1 << chance.randrange(8)]) + content[position + 1 :]
