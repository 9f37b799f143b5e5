"""Alembic's entry: migrations run on the connection that the store hands in, inside its transaction."""

from __future__ import annotations

from alembic import context

from brickyard.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
