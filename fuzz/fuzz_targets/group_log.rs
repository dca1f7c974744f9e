//! The engine's door to `fuzz::group_log`; what is tried and judged stands there.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::group_log::run(input));
