//! The engine's door to `fuzz::peers`; what is tried and judged stands there.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::peers::run(input));
