"""Programs that users find on a node in the place of the machine's own. They are run by their files, and import nothing."""
