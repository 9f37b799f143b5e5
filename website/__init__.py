"""The documentation as a site: README.md, CONTRIBUTING.md, CHANGELOG.md and docs/, made by Zensical (docs/dev/website.md)."""
