"""PyIceberg's models as JSON, while other threads use them."""

from typing import Any

from pyiceberg.typedef import IcebergBaseModel


def model_json(model: IcebergBaseModel) -> str:
    """A model as JSON text.

    A schema keeps in its ``__dict__`` what it has looked up, and PyIceberg walks that when it writes: another thread
    that looks up a field meanwhile would end it. A copy is this thread's own.
    """
    return model.model_copy().model_dump_json()


def model_document(model: IcebergBaseModel) -> dict[str, Any]:
    """A model as the document of its JSON text; as ``model_json`` in all else."""
    return model.model_copy().model_dump(mode="json")
