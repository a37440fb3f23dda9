"""What an epoch would take: a few measured rates, the trainer's rules, and the cost model of `graphprep.traffic`."""
