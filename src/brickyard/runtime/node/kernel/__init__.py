"""What runs inside the process of a kernel, beside the user's code. It uses nothing of the other rooms."""
