from typing import Literal

CatalogueEntryKind = Literal["decoder", "encoder", "other"]

CATALOGUE_ENTRY_KIND_VALUES: set[CatalogueEntryKind] = {
    "decoder",
    "encoder",
    "other",
}


def check_catalogue_entry_kind(value: str) -> CatalogueEntryKind:
    if value in CATALOGUE_ENTRY_KIND_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CATALOGUE_ENTRY_KIND_VALUES!r}")
