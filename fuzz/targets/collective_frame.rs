#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::target("collective_frame").unwrap()(data));
