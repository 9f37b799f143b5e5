"""The SQL Statement Execution API: statements over HTTP, and their results for an hour."""
