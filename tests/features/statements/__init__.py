"""The Statement Execution API."""
