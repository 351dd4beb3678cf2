"""The kinds of stores that clients may get credentials for, as clients of Iceberg know them.

Source: ``S3FileIO``, ``GCSFileIO`` and ``ADLSFileIO`` of Iceberg, which choose credentials by the prefix of a URI;
``AwsClientProperties``, ``GCPProperties`` and ``AzureProperties``, for refreshing.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile


def _common(places: Sequence[str]) -> str:
    """What all the URIs of some folders, and of all that is in them, begin with; empty if there is nothing."""
    by_depth = zip(*(place.split("/") for place in places), strict=False)
    common = takewhile(lambda parts: len(set(parts)) == 1, by_depth)
    return "".join(f"{parts[0]}/" for parts in common)


def _one_prefix(all_of_store: str) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """One prefix for all places: clients in Java refuse to renew credentials of several."""
    return lambda places: (_common(places) or all_of_store,)


def _prefix_of_each(places: Sequence[str]) -> tuple[str, ...]:
    """A prefix for each place: clients in Java look for the one that names the account, which each has its own of."""
    return tuple(_common((place,)) for place in places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A kind of store.

    ``form`` is that of the URIs of folders, such as ``example``, after the scheme. ``refresh`` is the property by which
    clients know where to get new credentials; ``prefixes`` tells under which they look for those of some places.
    """

    schemes: tuple[str, ...]
    form: str
    example: str
    refresh: str
    prefixes: Callable[[Sequence[str]], tuple[str, ...]]

    def has(self, uri: str) -> bool:
        """Whether a URI is one of this store."""
        return uri.partition("://")[0].lower() in self.schemes

    def has_form(self, prefix: str) -> bool:
        """Whether a URI is of the form for this store, and so has no secrets."""
        scheme, _, rest = prefix.partition("://")
        return scheme.lower() in self.schemes and re.fullmatch(self.form, rest) is not None


_BUCKET = "[^?@]+"

S3 = Store(
    schemes=("s3", "s3a", "s3n"),
    form=_BUCKET,
    example="s3://lake/tables",
    refresh="client.refresh-credentials-endpoint",
    prefixes=_one_prefix(all_of_store="s3"),
)
GCS = Store(
    schemes=("gs",),
    form=_BUCKET,
    example="gs://lake/tables",
    refresh="gcs.oauth2.refresh-credentials-endpoint",
    prefixes=_one_prefix(all_of_store="gs"),
)
AZURE = Store(
    schemes=("abfss", "abfs", "wasbs", "wasb"),
    form=r"[a-z0-9$-]+@[a-z0-9]+\.[a-z0-9.-]+(/[^?@]*)?",
    example="abfss://tables@lake.dfs.core.windows.net/sales",
    refresh="adls.refresh-credentials-endpoint",
    prefixes=_prefix_of_each,
)
STORES = (S3, GCS, AZURE)
