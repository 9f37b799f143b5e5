"""The workspace-conf API: settings of the workspace that administrators change while it runs."""
