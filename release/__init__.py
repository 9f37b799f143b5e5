"""What a release consists of: a wheel with the web page, a source distribution, an SBOM and checksums (docs/dev/release.md)."""
