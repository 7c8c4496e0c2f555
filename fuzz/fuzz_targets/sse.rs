#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcplane_fuzz_targets::sse::run(data));
