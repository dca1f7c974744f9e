//! The engine's door to `fuzz::metadata`; what is tried and judged stands there.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::metadata::run(input));
