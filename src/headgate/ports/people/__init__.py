"""The stores of users, and of what is kept and told of them."""
