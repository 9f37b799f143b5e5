"""IP access lists: from which addresses the workspace may be used."""
