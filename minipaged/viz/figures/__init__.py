"""Static figures: functions from events or metrics to a Picture (figure, sentence, data). See README.md here."""
