"""SQL warehouses: clusters that run the statements of SQL clients."""
