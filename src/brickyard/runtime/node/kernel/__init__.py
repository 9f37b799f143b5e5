"""What runs inside the process of a kernel, beside the user's code. It imports nothing of the other rooms."""
