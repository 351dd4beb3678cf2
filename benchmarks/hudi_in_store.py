"""Opens a table in a store of ``store`` with the ``hudi`` package."""

from hudi import HudiTableBuilder


def in_store(endpoint: str, path: str) -> HudiTableBuilder:
    """The builder of a table; ``path`` begins with its bucket."""
    options = {"aws_endpoint": f"http://{endpoint}", "aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    options |= {"aws_region": "us-east-1", "aws_allow_http": "true"}
    return HudiTableBuilder.from_base_uri(f"s3://{path}").with_storage_options(options)
