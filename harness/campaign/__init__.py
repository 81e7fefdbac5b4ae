"""From a configuration to records: cells and their identity, the sweep, the process of a cell, its measurement."""
