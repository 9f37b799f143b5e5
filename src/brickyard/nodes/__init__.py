"""The nodes as the server knows them: what their agents report, what they have to do, and how they are called."""
