"""What reads tables for people: doctor, trace, report, diff."""
