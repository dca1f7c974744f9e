"""The parts of bench/one-node: brokers to measure, clients that load them, sections of rows, tables."""
