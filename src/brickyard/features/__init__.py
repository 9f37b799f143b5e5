"""What a workspace offers beside clusters, a folder for each feature. No feature imports another, and the core none.

A file's name says what it holds: `model` requests, answers and rows as structs; `rules` pure decisions; `rows` the rows of its
tables, reached by `tx.rows`; `service` what the API calls; `loop` what a server does by itself. A feature with several
services names each file after what it serves. Handlers are in `api/`, because `api/services.py` lists the services by type.
`server/` makes the services (`services.py`) and loops (`background.py`). What the core itself reads or writes, such as the
charges of a cluster's nodes, is in the core, and the rows that `Tx` has as attributes are in `store`.
"""
