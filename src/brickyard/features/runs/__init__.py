"""The Jobs API's runs."""
