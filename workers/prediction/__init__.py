"""What a plan is predicted to take, before anything is measured."""
