"""The digest of a record shows whether it was changed later. It is no signature: anyone can compute it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from harness.records.strict_json import strict_json
from harness.records.timing_caveat import Mark

_LENGTH = 16  # bytes


def digest_of(data: Mapping[str, Any]) -> str:
    """Return the digest of all fields of a record but its ``digest``: BLAKE2b of its JSON with sorted names."""
    content = strict_json({name: value for name, value in data.items() if name != "digest"})
    text = json.dumps(content, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_LENGTH).hexdigest()


def edited(data: Mapping[str, Any]) -> bool:
    """Return whether a record, as its file has it, differs from its digest; False if it has none."""
    return data.get("digest") is not None and data["digest"] != digest_of(data)


def signed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the digest of its content; one that was read without a digest stays without."""
    return {**data, "digest": None if data.get("digest", "") is None else digest_of(data)}


def marked(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an edited record with the mark ``edited``."""
    marks = data.get("marks")
    return {**data, "marks": list(dict.fromkeys([*marks, Mark.EDITED.value]))} if isinstance(marks, list) else {**data}
