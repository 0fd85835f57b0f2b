#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::target("a2a_v1_frames").unwrap()(data));
