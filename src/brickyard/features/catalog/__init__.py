"""Catalogs and schemas for clients of Unity Catalog's API: what the metastore has, and who owns it."""
