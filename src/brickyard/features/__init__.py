"""What users have beside clusters, pools and runs, a folder for each feature. The core does not import features.

A file's name says what it holds: `model` requests, answers and rows as structs; `rules` pure decisions; `rows` the rows of its
tables, reached by `tx.rows`; `service` what the API calls; `loop` what a server does by itself. Handlers are in `api/`: they
are declared with its operations. `server/assembly.py` makes the services and loops. What the core itself reads or writes, such as
the charges of a cluster's nodes, is in the core.
"""
