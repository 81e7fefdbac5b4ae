"""Reports of records: progress during a sweep, tables, figures and the HTML page."""
