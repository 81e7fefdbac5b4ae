"""What one run of a cell left behind: the schema of a record, and the folder that keeps them."""

from harness.records.schema import SCHEMA_VERSION, Record, RecordError, validate
from harness.records.store import RECORD_FILE, read_record, read_records, write_json, write_record

__all__ = [
    "RECORD_FILE",
    "SCHEMA_VERSION",
    "Record",
    "RecordError",
    "read_record",
    "read_records",
    "validate",
    "write_json",
    "write_record",
]
