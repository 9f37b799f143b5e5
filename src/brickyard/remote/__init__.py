"""The web page in front of a workspace elsewhere: a small server of this machine that keeps the token and passes API calls on."""
