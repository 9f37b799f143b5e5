"""SQLAlchemy Core tables, units of work, leases, migrations."""
