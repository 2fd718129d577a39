"""Pictures drawn from the event log. Nothing here reads private state; every figure carries a sentence."""
