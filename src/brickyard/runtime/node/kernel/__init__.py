"""Code inside a kernel's process, beside the user's code. It uses none of the neighbouring packages."""
