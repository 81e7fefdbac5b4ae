"""Records of runs: their schema, their storage in a folder, and their evaluation."""

from harness.records.interleaved_rounds import machine_of, merge_rounds, superseded
from harness.records.schema import SCHEMA_VERSION, NewerRecord, Record, RecordError, validate
from harness.records.store import RECORD_FILE, read_record, read_records, write_json, write_record
from harness.records.timing_caveat import Mark

__all__ = [
    "RECORD_FILE",
    "SCHEMA_VERSION",
    "Mark",
    "NewerRecord",
    "Record",
    "RecordError",
    "machine_of",
    "merge_rounds",
    "read_record",
    "read_records",
    "superseded",
    "validate",
    "write_json",
    "write_record",
]
