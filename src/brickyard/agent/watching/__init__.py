"""What a node takes: measured for its cluster's metrics, and ended before it takes what belongs to others."""
