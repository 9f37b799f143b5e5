"""Access to clusters other than the API: Spark Connect and the Spark UI. They use other protocols; services authorise callers."""
